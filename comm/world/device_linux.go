package world

import (
	"fmt"
	"io/fs"
	"syscall"
)

// device is the number of the file system that a file is on.
func device(info fs.FileInfo) string {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprint(s.Dev)
	}
	return ""
}
