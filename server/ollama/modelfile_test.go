package ollama

import (
	"strings"
	"testing"
)

// TestModelfileLines: a text of many lines is read as it stands, in time that grows with its length.
func TestModelfileLines(t *testing.T) {
	text := strings.Repeat("\n", 4<<20)
	all, err := parseModelfile("FROM x\nSYSTEM \"\"\" a" + text + "b\"\"\" ignored\nLICENSE y")
	if err != nil || len(all) != 3 || all[1].args != " a"+text+"b" || all[2].line != 3+len(text) {
		t.Errorf("%d instructions, %v", len(all), err)
	}
}
