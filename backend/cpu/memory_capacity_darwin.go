package cpu

import "golang.org/x/sys/unix"

// capacity is the machine's memory in bytes; 0 when it does not say.
func capacity() int64 {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return int64(n)
}
