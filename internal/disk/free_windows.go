// Package disk says how much a file system has room for.
package disk

import (
	"math"

	"golang.org/x/sys/windows"
)

// Free is how many bytes a user may still write to the file system that a folder is on; an error where that is not known.
func Free(dir string) (int64, error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(name, &free, nil, nil); err != nil {
		return 0, err
	}
	return int64(min(free, math.MaxInt64)), nil
}
