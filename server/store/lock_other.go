//go:build !unix

package store

import "os"

// lockFile opens a file; without flock, the user has to make sure that no other process uses the directory.
func lockFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
}
