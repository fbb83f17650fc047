package ollama

import (
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
)

// TestModelfileLines: a text of many lines is read as it stands, in time that grows with its length.
func TestModelfileLines(t *testing.T) {
	text := strings.Repeat("\n", 4<<20)
	all, err := parseModelfile("FROM x\nSYSTEM \"\"\" a" + text + "b\"\"\" ignored\nLICENSE y")
	if err != nil || len(all) != 3 || all[1].args != " a"+text+"b" || all[2].line != 3+len(text) {
		t.Errorf("%d instructions, %v", len(all), err)
	}
}

// TestModelfileStops: of more strings than are looked for no list is made, which would be read and written for each.
func TestModelfileStops(t *testing.T) {
	for _, n := range []int{ridge.MaxStops, ridge.MaxStops + 1, 1 << 20} {
		q := &createRequest{}
		err := q.read(strings.Repeat("PARAMETER stop a\n", n))
		if (err != nil) != (n > ridge.MaxStops) {
			t.Errorf("%d strings: %v", n, err)
		}
	}
}
