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

// Reserve is Reserve on Linux.
func Reserve(int64) (Memory, error) { return Memory{}, ErrUnsupported }

// Named is Named on Linux.
func Named(string, string) (Memory, error) { return Memory{}, ErrUnsupported }

// Mapped is there on Linux alone.
type Mapped struct{ Bytes []byte }

// Map is Map on Linux.
func Map(Memory, int64) (*Mapped, error) { return nil, ErrUnsupported }

// Close does nothing.
func (*Mapped) Close() error { return nil }
