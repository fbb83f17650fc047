//go:build !linux

package shm

import "github.com/ridge-llm/ridge/comm"

// Create is Create on Linux.
func Create(int) (Memory, error) { return Memory{}, ErrUnsupported }

// Open is Open on Linux.
func Open(Memory, int, int) (*Rank, error) { return nil, ErrUnsupported }

// Remove is Remove on Linux.
func Remove(Memory) error { return ErrUnsupported }

// Rank is there on Linux alone.
type Rank struct{ comm.Communicator }

// Close does nothing.
func (*Rank) Close() error { return nil }
