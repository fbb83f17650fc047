package mmap

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestOpenShowsTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	want := make([]byte, 3*os.Getpagesize()+7)
	for i := range want {
		want[i] = byte(i * 31)
	}
	if err := os.WriteFile(path, want, 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(f.Bytes()) != string(want) {
		t.Error("the mapped bytes differ from the file's")
	}
	// What renaming a new version over a model in use must do: nothing.
	if err := os.WriteFile(path+".new", []byte("new"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	if string(f.Bytes()) != string(want) {
		t.Error("replacing the file changed the open one")
	}
	for range 2 {
		if err := f.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if f.Bytes() != nil {
		t.Error("a closed file still shows bytes")
	}
}

func TestOpenEmptyMissingAndDirectory(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := Open(empty)
	if err != nil || len(f.Bytes()) != 0 || f.Close() != nil {
		t.Errorf("an empty file should open as no bytes; got %v", err)
	}
	if _, err := Open(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file gave %v", err)
	}
	if _, err := Open(dir); err == nil {
		t.Error("a directory opened")
	}
}
