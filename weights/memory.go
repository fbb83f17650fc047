package weights

import "github.com/ridge-llm/ridge/weights/gguf"

// OpenBytes is Open for a GGUF file that is in memory, such as one embedded into a program; name stands for its path.
func OpenBytes(name string, data []byte) (*Source, error) {
	f, err := gguf.FromBytes(name, data)
	if err != nil {
		return nil, err
	}
	return fromGGUF(f, name), nil
}
