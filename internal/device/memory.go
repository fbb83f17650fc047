package device

import "github.com/ridge-llm/ridge/backend"

// Memory is the whole memory of a backend, in bytes; 0 where it cannot be used or does not say.
func Memory(name string) int64 {
	o := Options{Backend: name}
	if !OnGPU(name) {
		o.Threads = 1
	}
	d, err := Open(o)
	if err != nil {
		return 0
	}
	defer d.Close()
	m, ok := d.(backend.MemoryInfo)
	if !ok {
		return 0
	}
	_, total, err := m.Memory()
	if err != nil {
		return 0
	}
	return total
}
