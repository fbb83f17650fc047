//go:build !linux && !darwin && !windows

// Package disk says how much a file system has room for.
package disk

import "errors"

// Free is not known on systems that Ridge does not ask.
func Free(string) (int64, error) { return 0, errors.ErrUnsupported }
