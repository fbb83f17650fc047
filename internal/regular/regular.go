// Package regular opens regular files alone. Reading a FIFO waits for a writer that may never come, and a device has no end.
package regular

import (
	"fmt"
	"io/fs"
	"os"
)

// Check refuses what is not a regular file. A path where nothing is passes: opening says that.
func Check(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.Mode().IsRegular() {
		return nil
	}
	return &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("it is %s; only a regular file is possible", kind(info.Mode()))}
}

// Open is os.Open of a regular file.
func Open(path string) (*os.File, error) {
	if err := Check(path); err != nil {
		return nil, err
	}
	return os.Open(path)
}

// ReadFile is os.ReadFile of a regular file.
func ReadFile(path string) ([]byte, error) {
	if err := Check(path); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

func kind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "no file with contents"
}
