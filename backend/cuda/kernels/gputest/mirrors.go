package gputest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/backend/cuda/ptx"
	"github.com/ridge-llm/ridge/backend/cuda/ptx/source"
)

var entry = regexp.MustCompile(`\.entry (\w+)\(\s*\.param \.align \d+ \.b8 \w+\[(\d+)\]`)

// Mirrors checks that each kernel of a module takes as many bytes of parameters as Go's struct for it has. sizes go by how the
// kernels' names begin; the longest that fits counts. It reads the PTX and needs no GPU. A module whose source is newer than its PTX is
// skipped, except under continuous integration (CI=true): make ptx rebuilds the archive once for many changes.
func Mirrors(t *testing.T, module string, sizes map[string]uintptr) {
	t.Helper()
	if os.Getenv("CI") != "true" && stale(t, module) {
		t.Skipf("the source of %s is newer than its PTX; make ptx rebuilds that", module)
	}
	used := map[string]bool{}
	for _, arch := range []int{80, 90} {
		texts, err := ptx.Open(arch)
		if err != nil {
			t.Fatal(err)
		}
		text, err := texts.Module(module)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range entry.FindAllStringSubmatch(string(text), -1) {
			best := ""
			for start := range sizes {
				if strings.HasPrefix(m[1], start) && len(start) > len(best) {
					best = start
				}
			}
			used[best] = true
			if takes, err := strconv.Atoi(m[2]); best == "" || err != nil || uintptr(takes) != sizes[best] {
				t.Errorf("compute capability %d: the kernel %s takes %s bytes of parameters, Go's struct for it has %d", arch, m[1], m[2], sizes[best])
			}
		}
	}
	for start := range sizes {
		if !used[start] {
			t.Errorf("there is no kernel %s…", start)
		}
	}
}

// stale reports whether a module's source is not what its PTX was made from. The sources are looked for above the test's folder.
func stale(t *testing.T, module string) bool {
	t.Helper()
	dir := ".."
	for ; filepath.Base(dir) == ".." && len(dir) < 30; dir = filepath.Join("..", dir) {
		text, err := os.ReadFile(filepath.Join(dir, "ptx", "kernels.txt"))
		if err != nil {
			continue
		}
		sums, err := source.ParseSums(string(text))
		if err != nil {
			t.Fatal(err)
		}
		modules, err := source.Modules(filepath.Join(dir, "kernels"))
		if err != nil {
			t.Fatal(err)
		}
		stale, _ := sums.Stale(modules)
		return slices.Contains(stale, module)
	}
	t.Fatal("no folder above this one has ptx/kernels.txt")
	return false
}
