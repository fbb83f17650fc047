//go:build linux || darwin

// Package disk says how much a file system has room for.
package disk

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Free is how many bytes a user may still write to the file system that a folder is on; an error where that is not known.
func Free(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	if s.Blocks == 0 { // a file system that does not count
		return 0, errors.ErrUnsupported
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}
