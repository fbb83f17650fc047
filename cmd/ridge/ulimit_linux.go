package main

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/ridge-llm/ridge/internal/size"
)

// Below these limits the runtime's own threads and heap are refused memory, which ends a program with a stack trace in the middle of
// its work.
const (
	leastAddressSpace = 2 << 30 // bytes, ulimit -v
	leastData         = 1 << 28 // ulimit -d
)

// checkLimits refuses to start in less memory than any command needs.
func checkLimits() error {
	for _, l := range []struct {
		resource int
		least    uint64
		flag     string
	}{{unix.RLIMIT_AS, leastAddressSpace, "-v"}, {unix.RLIMIT_DATA, leastData, "-d"}} {
		var limit unix.Rlimit
		if err := unix.Getrlimit(l.resource, &limit); err == nil && limit.Cur < l.least {
			return fmt.Errorf("this process may use %s of memory (ulimit %s) and needs %s beside the model; raise the limit: ulimit %s %d",
				size.Text(int64(limit.Cur)), l.flag, size.Text(int64(l.least)), l.flag, l.least>>10)
		}
	}
	return nil
}
