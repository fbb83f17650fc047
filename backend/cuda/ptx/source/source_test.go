package source

import (
	"os"
	"path/filepath"
	"testing"
)

// TestOriginFollowsIncludes: the origin of a kernel changes with the headers that it includes, however far off, and with no others.
func TestOriginFollowsIncludes(t *testing.T) {
	dir := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	origin := func() string {
		t.Helper()
		jobs, err := Jobs(dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(jobs) != len(targets) || jobs[0].Name != "a" {
			t.Fatalf("%d jobs, the first %v; there is one kernel, a, for each of %v", len(jobs), jobs, targets)
		}
		return jobs[0].Origin()
	}
	write("a/a.cu", "#include \"near.h\"\n")
	write("a/near.h", "#include \"../b/far.h\"\n#include \"../b/far.h\"\n")
	write("b/far.h", "#include \"../all.h\"\n")
	write("all.h", "")
	write("a/unread.h", "")
	before := origin()
	write("a/unread.h", "changed")
	if origin() != before {
		t.Error("a header that is not included changes the origin")
	}
	for _, path := range []string{"all.h", "b/far.h", "a/near.h"} {
		write(path, "changed\n")
		after := origin()
		if after == before {
			t.Errorf("%s does not change the origin", path)
		}
		before = after
	}
	write("a/near.h", "#include \"none.h\"\n")
	if _, err := Jobs(dir); err == nil {
		t.Error("a header that is not there is no error")
	}
}
