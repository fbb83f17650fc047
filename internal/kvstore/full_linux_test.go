package kvstore

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFull: on a file system without room a write fails, leaves nothing behind, is not tried again for a while, and what is there can still be read.
func TestFull(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("a small file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	f := open(t, dir, 1<<30)
	failed := -1
	for i := range 100 {
		if _, err := f.Write(key(i), parts(i, 3000)); err != nil {
			if failed = i; !errors.Is(err, unix.ENOSPC) {
				t.Errorf("the error is %v", err)
			}
			break
		}
	}
	if failed < 1 {
		t.Fatalf("file %d was the first without room", failed)
	}
	if _, err := f.Write(key(failed), parts(failed, 3000)); err == nil || errors.Is(err, unix.ENOSPC) {
		t.Errorf("it was tried again at once: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*", "*"+temporary)); err != nil || len(left) > 0 {
		t.Errorf("half-written files are left: %v (%v)", left, err)
	}
	if _, ok, err := read(f, key(0)); !ok || err != nil {
		t.Errorf("what was written before is read as %t, %v", ok, err)
	}
	if err := os.Remove(f.path(key(0))); err != nil {
		t.Error(err)
	}
}
