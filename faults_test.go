package ridge_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFaultTable: every test that docs/faults.md names exists, and every row names one.
func TestFaultTable(t *testing.T) {
	text, err := os.ReadFile("docs/faults.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([^`]+)`\\.((?:Test|Fuzz)\\w+)")
	tests := map[string]map[string]bool{} // of each folder
	rows := 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| fault |") || strings.HasPrefix(line, "| run ") || strings.Count(line, "|") != 4 {
			continue
		}
		cells := strings.Split(line, " | ")
		refs := named.FindAllStringSubmatch(cells[len(cells)-1], -1)
		if len(refs) == 0 {
			t.Errorf("a row names no test as `FOLDER`.TestName: %s", line)
		}
		for _, m := range refs {
			dir, name := m[1], m[2]
			if tests[dir] == nil {
				tests[dir] = testsOf(t, dir)
			}
			if !tests[dir][name] {
				t.Errorf("%s has no %s, which docs/faults.md names", dir, name)
			}
		}
		rows++
	}
	if rows < 100 {
		t.Errorf("docs/faults.md has %d rows; there were 100", rows)
	}
}

// testsOf is the names of the tests in a folder.
func testsOf(t *testing.T, dir string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	files, err := filepath.Glob(filepath.Join(filepath.FromSlash(dir), "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				names[fn.Name.Name] = true
			}
		}
	}
	return names
}
