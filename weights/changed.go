package weights

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"path/filepath"
	"sync"

	"github.com/ridge-llm/ridge/internal/regular"
)

// Changed is an error that names the file once weights were written to or cut since they were opened: what was read since may be
// wrong. That takes some hundred ns for each file.
func (s *Source) Changed() error {
	if err := s.files.Changed(); err != nil {
		return fmt.Errorf("weights: %w", err)
	}
	return nil
}

// Replaced reports whether opening the model again would give another one: other weights, another config.json, or other files beside
// them of those that were read.
func (s *Source) Replaced() bool {
	if s.files.Replaced() {
		return true
	}
	if s.Config != nil {
		if now, err := regular.ReadFile(filepath.Join(s.dir, configFile)); err != nil || !bytes.Equal(now, s.Config) {
			return true
		}
	}
	return s.beside.replaced(s.dir)
}

// beside are the files that were read beside the weights.
type beside struct {
	mu   sync.Mutex
	seed maphash.Seed
	sums map[string]uint64 // of their contents
}

func (b *beside) read(name string, data []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sums == nil {
		b.sums, b.seed = map[string]uint64{}, maphash.MakeSeed()
	}
	b.sums[name] = maphash.Bytes(b.seed, data)
}

// replaced reports whether one of the files in dir is not what it was.
func (b *beside) replaced(dir string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, sum := range b.sums {
		if now, err := regular.ReadFile(filepath.Join(dir, name)); err != nil || maphash.Bytes(b.seed, now) != sum {
			return true
		}
	}
	return false
}
