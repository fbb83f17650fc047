//go:build !linux

package threads

// processors is unknown, and threads are not bound, on systems without the calls that Ridge uses for it.
func processors() []int { return nil }

func bindThread([]int) {}

func threadID() int { return 0 }
