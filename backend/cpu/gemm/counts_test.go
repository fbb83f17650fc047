package gemm

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestCounts checks the instructions of arm64's inner loops against the package's documentation: they have not been timed
// on hardware, so their counts are all there is to reason with.
func TestCounts(t *testing.T) {
	for _, c := range []struct {
		file, function, multiplies string
		instructions, of           int
	}{
		{"dot_dotprod", "dotI8x6D", "sdot", 190, 96},
		{"dot_dotprod", "dotU4x1D", "sdot", 239, 64},
		{"dot_dotprod", "dotU8x1D", "sdot", 240, 64},
		{"dot_i8mm", "dotI8x6M", "smmla", 167, 48},
		{"dot_neon", "dotI8x3Q", "sm[ul][a-z0-9]*", 239, 96},
		{"panel_neon", "panelF32x6Q", "fmla", 127, 96},
		{"panel_neon", "panelBF16x6Q", "bfmmla", 113, 48},
	} {
		loop := innerLoop(t, c.file+"_arm64.s", c.function)
		instructions := len(regexp.MustCompile(`(?m)^\t`).FindAllString(loop, -1))
		multiplies := len(regexp.MustCompile(`// `+c.multiplies+` `).FindAllString(loop, -1))
		if instructions != c.instructions || multiplies != c.of {
			t.Errorf("%s has %d instructions in its loop, of which %d are %s; it is documented with %d and %d",
				c.function, instructions, multiplies, c.multiplies, c.instructions, c.of)
		}
	}
}

// innerLoop is the text between a function's label "loop" and the branch back to it, without what only formats with
// minima run.
func innerLoop(t *testing.T, file, function string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, body, found := strings.Cut(string(text), "TEXT ·"+function+"(SB)")
	_, body, ok := strings.Cut(body, "\nloop:\n")
	end := regexp.MustCompile(`\tB(NE|GE) loop\n`).FindStringIndex(body)
	if !found || !ok || end == nil {
		t.Fatalf("%s has no function %s with a loop", file, function)
	}
	body = body[:end[1]]
	if before, minima, some := strings.Cut(body, "\tCBZ R4, next\n"); some {
		_, after, _ := strings.Cut(minima, "\nnext:\n")
		return before + after
	}
	return body
}
