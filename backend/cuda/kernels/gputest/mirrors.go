package gputest

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/backend/cuda/ptx"
)

var entry = regexp.MustCompile(`\.entry (\w+)\(\s*\.param \.align \d+ \.b8 \w+\[(\d+)\]`)

// Mirrors checks that each kernel of a module takes as many bytes of parameters as Go's struct for it has. sizes go by how the
// kernels' names begin; the longest that fits counts. It reads the PTX and needs no GPU.
func Mirrors(t *testing.T, module string, sizes map[string]uintptr) {
	t.Helper()
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
