//go:build !linux

package cpu

// processors is unknown on systems whose calls for it Ridge does not use; nor are threads bound there.
func processors() []int { return nil }

func bindThread([]int) {}

func threadID() int { return 0 }
