package ridge_test

import (
	"os"
	"regexp"
	"strconv"
	"testing"
)

// TestLoreIsNumbered: other files refer to the notes by number, so each number from 1 on is there once, in whatever section.
func TestLoreIsNumbered(t *testing.T) {
	text, err := os.ReadFile("docs/lore.md")
	if err != nil {
		t.Fatal(err)
	}
	times := map[int]int{}
	for _, m := range regexp.MustCompile(`(?m)^\*\*(\d+)\. `).FindAllSubmatch(text, -1) {
		n, err := strconv.Atoi(string(m[1]))
		if err != nil {
			t.Fatal(err)
		}
		times[n]++
	}
	if len(times) == 0 {
		t.Fatal("docs/lore.md has no notes that begin with **N. ")
	}
	for n := range len(times) {
		if times[n+1] != 1 {
			t.Errorf("docs/lore.md has note %d %d times; it should be there once", n+1, times[n+1])
		}
	}
}
