//go:build unix

package cpu

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/ridge-llm/ridge/internal/size"
)

// mapMemory maps n anonymous bytes of zeroes: they take no physical memory until they are written (first touch), and are freed the
// moment they are unmapped. Large pages, where the system grants them, avoid most of the page faults of the first touch; the
// first `small` bytes stay in small ones.
func mapMemory(n, small int64) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	data, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("the system gives this process no %s of memory; take a shorter context (--ctx), fewer requests at once (--max-num-seqs) or less for the cache (--kv-memory), or raise the limit of its address space (ulimit -v, ulimit -d) where there is one: %w", size.Text(n), err)
	}
	if n > small {
		adviseLargePages(data[small:])
	}
	return data, nil
}

func unmapMemory(data []byte) error {
	if data == nil {
		return nil
	}
	return unix.Munmap(data)
}
