package kv

import (
	"crypto/sha256"
	"encoding/binary"
)

// EventKind is what has happened to the index.
type EventKind int

const (
	Stored  EventKind = iota // a node was entered
	Removed                  // a node was evicted
	Cleared                  // all nodes were
)

// Event is a change of what the index has.
type Event struct {
	Kind   EventKind
	Hash   uint64  // of all tokens up to the node's end, and of its salt: the same in every process; never 0
	Before uint64  // of the node before it; 0: there is none
	Salt   uint64  // what may not be shared with others is not 0
	Tokens []int32 // of the node, while the call lasts
}

// Watch has f called with every change of the index from now on, of which it has nothing yet.
func (m *Manager) Watch(f func(Event)) {
	m.watch = f
	m.nodes.hash = make([]uint64, len(m.nodes.indexed))
	f(Event{Kind: Cleared})
}

// stored tells of a node that was entered.
func (m *Manager) stored(node, before int32, salt uint64, tokens []int32) {
	e := Event{Kind: Stored, Salt: salt, Tokens: tokens}
	if before != none {
		e.Before = m.nodes.hash[before]
	}
	e.Hash = hash(e.Before, salt, tokens)
	m.nodes.hash[node] = e.Hash
	m.watch(e)
}

// hash is a node's, given that of the node before it.
func hash(before, salt uint64, tokens []int32) uint64 {
	var space [512]byte
	b := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(space[:0], before), salt)
	for _, t := range tokens {
		b = binary.LittleEndian.AppendUint32(b, uint32(t))
	}
	sum := sha256.Sum256(b)
	return max(binary.LittleEndian.Uint64(sum[:]), 1)
}

// flushed has nobody watch until it is called back, and then tells of all at once if nothing is left in the index.
func (m *Manager) flushed(watch func(Event)) (after func()) {
	if watch == nil || m.nodes.idle < len(m.nodes.indexed)-len(m.nodes.free) {
		return func() {}
	}
	m.watch = nil
	return func() {
		m.watch = watch
		watch(Event{Kind: Cleared})
	}
}
