//go:build !unix

package cpu

// mapMemory allocates from the Go heap on systems without mmap; large allocations start on a page there as well.
func mapMemory(n, _ int64) ([]byte, error) { return make([]byte, n), nil }

func unmapMemory([]byte) error { return nil }
