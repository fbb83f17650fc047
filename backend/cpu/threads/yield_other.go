//go:build !linux

package threads

import "runtime"

// yield lets other goroutines run before the caller goes on.
func yield() { runtime.Gosched() }
