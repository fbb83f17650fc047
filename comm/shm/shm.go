// Package shm is communication between processes of one host through memory that all of them map. Small messages are written once and added by every rank (one-shot);
// large ones go through blocks that stay in the processors' caches, each rank adding its part of every block. Waits spin, then sleep on a futex.
package shm

import "errors"

// ErrUnsupported is the error of systems without futexes.
var ErrUnsupported = errors.New("comm: shared memory between processes is there on Linux alone; choose tcp")

// Memory names shared memory, for the processes that are to map it.
type Memory struct {
	Path  string `json:"path"`
	Nonce string `json:"nonce"` // in its first bytes: a file of that name on another host is another one
}
