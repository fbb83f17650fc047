package source

import (
	"os"
	"path/filepath"
	"testing"
)

// TestHashFollowsIncludes: the hash of a module changes with the headers that it includes, however far off, and with no others.
func TestHashFollowsIncludes(t *testing.T) {
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
	hash := func() string {
		t.Helper()
		modules, err := Modules(dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(modules) != 1 || modules[0].Name != "a/a" {
			t.Fatalf("modules %v; there is one, a/a", modules)
		}
		return modules[0].Hash
	}
	write("a/a.cu", "#include \"near.h\"\n")
	write("a/near.h", "#include \"../b/far.h\"\n#include \"../b/far.h\"\n")
	write("b/far.h", "#include \"../all.h\"\n")
	write("all.h", "")
	write("a/unread.h", "")
	before := hash()
	write("a/unread.h", "changed")
	if hash() != before {
		t.Error("a header that is not included changes the hash")
	}
	write("all.h", "// of all\n")
	if hash() != before {
		t.Error("a comment changes the hash")
	}
	for _, path := range []string{"all.h", "b/far.h", "a/near.h"} {
		write(path, "changed\n")
		after := hash()
		if after == before {
			t.Errorf("%s does not change the hash", path)
		}
		before = after
	}
	write("a/near.h", "#include \"none.h\"\n")
	if _, err := Modules(dir); err == nil {
		t.Error("a header that is not there is no error")
	}
}

func TestSums(t *testing.T) {
	want := Sums{"gemm/a": {Source: "1", PTX: []string{"2", "3"}}, "norm/b": {Source: "4", PTX: []string{"5", "6"}}}
	got, err := ParseSums(want.String())
	if err != nil || got.String() != want.String() || len(got) != 2 {
		t.Errorf("%v becomes %v: %v", want, got, err)
	}
	stale, gone := got.Stale([]Module{{Name: "gemm/a", Hash: "1"}, {Name: "gemm/c", Hash: "7"}})
	if len(stale) != 1 || stale[0] != "gemm/c" || len(gone) != 1 || gone[0] != "norm/b" {
		t.Errorf("stale %v, gone %v", stale, gone)
	}
	if _, err := ParseSums("gemm/a 1 2\n"); err == nil {
		t.Error("a line without one target's hash is no error")
	}
}
