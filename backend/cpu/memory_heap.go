//go:build !unix

package cpu

// mapMemory is the Go heap on systems whose memory calls Ridge does not use; it starts on a page there as well.
func mapMemory(n, _ int64) ([]byte, error) { return make([]byte, n), nil }

func unmapMemory([]byte) error { return nil }
