package ridge_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestFaultsTable: every row of docs/faults.md names a test that exists.
func TestFaultsTable(t *testing.T) {
	table, err := os.ReadFile("docs/faults.md")
	if err != nil {
		t.Fatal(err)
	}
	exists := map[string]bool{}
	for _, file := range sourceFiles(t) {
		if !strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`).FindAllSubmatch(text, -1) {
			exists[string(m[1])] = true
		}
	}
	rows := 0
	name := regexp.MustCompile("`((?:Test|Fuzz)\\w+)`")
	for line := range strings.Lines(string(table)) {
		cells := strings.Split(line, " | ")
		if len(cells) != 3 || strings.HasPrefix(line, "| fault ") {
			continue
		}
		rows++
		tests := name.FindAllStringSubmatch(cells[2], -1)
		if len(tests) == 0 {
			t.Errorf("no test is named by the row %s", line)
		}
		for _, m := range tests {
			if !exists[m[1]] {
				t.Errorf("there is no %s, which the table names", m[1])
			}
		}
	}
	if rows < 30 {
		t.Errorf("the table has %d rows", rows)
	}
}
