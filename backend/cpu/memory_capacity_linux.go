package cpu

import "golang.org/x/sys/unix"

// capacity is the machine's memory in bytes; 0 when it does not say.
func capacity() int64 {
	var i unix.Sysinfo_t
	if unix.Sysinfo(&i) != nil {
		return 0
	}
	return int64(i.Totalram) * int64(i.Unit)
}
