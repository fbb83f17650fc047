//go:build !unix

package store

import "os"

// lockFile opens a file; where there is no flock, that nobody else uses the directory is the user's to see to.
func lockFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
}
