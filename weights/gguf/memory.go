package gguf

import "fmt"

// FromBytes is Open for a file that is in memory already; name stands for its path in errors. The tensors' data are
// windows into data, which must not change while they are used.
func FromBytes(name string, data []byte) (*File, error) {
	f, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("gguf: %s: %w", name, err)
	}
	return f, nil
}
