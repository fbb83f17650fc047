package mmap

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/ridge-llm/ridge/internal/size"
)

// ErrChanged says that a file that is open is not what it was: what is read of it cannot be trusted.
var ErrChanged = errors.New("the file was changed while it was in use")

// Changed is an ErrChanged with the file's path once its contents have been written to or cut since Open, and nil before, for some
// hundred ns. That another file has its name now does not matter: this one is kept until Close.
func (f *File) Changed() error {
	if f.file == nil {
		return nil
	}
	now, err := f.file.Stat()
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", f.file.Name(), err)
	case now.Size() != f.info.Size():
		return fmt.Errorf("%s: %w: it had %s and has %s", f.file.Name(), ErrChanged, size.Text(f.info.Size()), size.Text(now.Size()))
	case !now.ModTime().Equal(f.info.ModTime()):
		return fmt.Errorf("%s: %w: it was written at %s", f.file.Name(), ErrChanged, now.ModTime().Format(time.RFC3339))
	}
	return nil
}

// Replaced reports whether opening the file's path again would give other contents, or none.
func (f *File) Replaced() bool {
	if f.file == nil {
		return false
	}
	now, err := os.Stat(f.file.Name())
	return err != nil || !os.SameFile(now, f.info) || f.Changed() != nil
}

// Changed is the first file's error.
func (s Set) Changed() error {
	for _, f := range s {
		if err := f.Changed(); err != nil {
			return err
		}
	}
	return nil
}

// Replaced reports whether any file is.
func (s Set) Replaced() bool {
	for _, f := range s {
		if f.Replaced() {
			return true
		}
	}
	return false
}
