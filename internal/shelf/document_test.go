package shelf

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const document = "../../MODELS.md"

// TestDocument holds the tables of MODELS.md to the shelf; UPDATE=1 writes them.
func TestDocument(t *testing.T) {
	data, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for name, table := range map[string]string{"memory": byMemory(t), "all": listed()} {
		begin := "<!-- " + name + " -->\n\n"
		before, rest, ok := strings.Cut(text, begin)
		_, after, ended := strings.Cut(rest, "\n<!-- end -->")
		if !ok || !ended {
			t.Fatalf("%s has no place for the table %q", document, name)
		}
		text = before + begin + table + "\n<!-- end -->" + after
	}
	if text == string(data) {
		return
	}
	if os.Getenv("UPDATE") == "" {
		t.Fatalf("%s does not say what the shelf has; UPDATE=1 go test ./internal/shelf writes it", document)
	}
	if err := os.WriteFile(document, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestReadme: the README's table of memory says what the shelf recommends.
func TestReadme(t *testing.T) {
	data, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| (a GPU of )?([0-9]+) GB \\| `([^`]+)` \\| ([0-9.]+) GB \\|$").FindAllStringSubmatch(string(data), -1)
	for _, r := range rows {
		gb, err := strconv.ParseInt(r[2], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		m, _ := Recommend(gb<<30, r[1] != "")
		if m.Name() != r[3] || fmt.Sprintf("%.1f", float64(m.Needs())/1e9) != r[4] {
			t.Errorf("the README says %q; the shelf has %s, %.1f GB", r[0], m.Name(), float64(m.Needs())/1e9)
		}
	}
	if len(rows) < 5 {
		t.Errorf("the README has %d rows", len(rows))
	}
}

func byMemory(t *testing.T) string {
	var b strings.Builder
	b.WriteString("| memory | model | takes | |\n|---|---|---|---|\n")
	for _, c := range []struct {
		gb  int64
		gpu bool
	}{{8, false}, {16, false}, {24, false}, {64, false}, {8, true}, {24, true}, {80, true}} {
		m, ok := Recommend(c.gb<<30, c.gpu)
		if !ok {
			t.Fatalf("nothing is recommended for %d GB", c.gb)
		}
		what := "GB"
		if c.gpu {
			what = "GB, a GPU's (`--backend cuda`)"
		}
		fmt.Fprintf(&b, "| %d %s | `ridge run %s` | %.1f GB | %s |\n", c.gb, what, m.Name(), float64(m.Needs())/1e9, m.About)
	}
	return b.String()
}

func listed() string {
	var b strings.Builder
	b.WriteString("| name | file on the hub | size | needs | |\n|---|---|---|---|---|\n")
	for _, m := range All() {
		fmt.Fprintf(&b, "| %s | %s | %.2f GB | %.1f GB | %s |\n", m.Name(), m.Ref(), float64(m.Bytes)/1e9, float64(m.Needs())/1e9, m.About)
	}
	return b.String()
}
