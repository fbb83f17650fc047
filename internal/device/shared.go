package device

import (
	"sync"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu"
)

// Shared opens devices for several models of one process. Those on the CPU share one pool of threads, which runs one step at a time; those on one
// GPU share its memory and run beside each other, each in a stream of its own.
type Shared struct {
	threads int // of the CPU; 0: as many as the process may use

	mu  sync.Mutex
	cpu *cpu.Device // whose threads the others use; nil until one is asked for
}

// NewShared opens nothing yet. threads is that of the CPU; 0: as many as the process may use.
func NewShared(threads int) *Shared { return &Shared{threads: threads} }

// Open opens a device for one model, which closes it. The threads are those of NewShared.
func (s *Shared) Open(o Options) (backend.Device, error) {
	if o.Threads = s.threads; o.Backend != "" && o.Backend != "cpu" {
		return Open(o)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cpu == nil {
		d, err := openCPU(o)
		if err != nil {
			return nil, err
		}
		s.cpu = d
	}
	return s.cpu.Share(o.Deterministic), nil
}

// Close ends the threads. All devices must have been closed.
func (s *Shared) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cpu == nil {
		return nil
	}
	err := s.cpu.Close()
	s.cpu = nil
	return err
}
