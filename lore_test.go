package ridge_test

import (
	"os"
	"regexp"
	"strconv"
	"testing"
)

// TestLoreIsNumbered: paragraphs are named by their numbers elsewhere, and several people append at a time.
func TestLoreIsNumbered(t *testing.T) {
	text, err := os.ReadFile("docs/lore.md")
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range regexp.MustCompile(`(?m)^(\d+)\. `).FindAllSubmatch(text, -1) {
		if got := string(m[1]); got != strconv.Itoa(i+1) {
			t.Fatalf("docs/lore.md: paragraph %s stands where %d should", got, i+1)
		}
	}
}
