package ridge_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFuzzCorpora: every fuzz test has inputs that the fuzzer has found in its folder, which go test runs.
func TestFuzzCorpora(t *testing.T) {
	fuzz := regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)
	found := 0
	for _, file := range sourceFiles(t) {
		if !strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range fuzz.FindAllSubmatch(text, -1) {
			found++
			dir := filepath.Join(path.Dir(file), "testdata", "fuzz", string(m[1]))
			if inputs, err := os.ReadDir(dir); len(inputs) == 0 {
				t.Errorf("%s has no inputs: %v; run it (make fuzz) and keep what it has found there", dir, err)
			}
		}
	}
	if found < 26 {
		t.Errorf("%d fuzz tests are found; there were 26", found)
	}
}
