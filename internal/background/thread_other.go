//go:build !linux

package background

// start runs f in a goroutine. Threads of this system have no priorities of their own that any process may lower.
func start(f func()) { go f() }
