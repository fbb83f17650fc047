package disk

import (
	"errors"
	"path/filepath"
	"testing"
)

// TestFree: what is free where a file has just been made is known, and nothing is known of a folder that is not there.
func TestFree(t *testing.T) {
	dir := t.TempDir()
	if n, err := Free(dir); !errors.Is(err, errors.ErrUnsupported) && (err != nil || n < 0) {
		t.Errorf("%d bytes are free (%v)", n, err)
	}
	if n, err := Free(filepath.Join(dir, "none")); err == nil {
		t.Errorf("%d bytes are free in a folder that is not there", n)
	}
}
