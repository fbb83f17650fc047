package recording

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
)

// hiding puts other tokens in the place of those of prompts and answers, so that a recording of the requests of several tenants holds nothing that they
// sent or were answered. A replay is the same: of two sequences of one salt, the hidden ones begin alike for as long as the real ones do (but for one
// chance in the size of the vocabulary at the token where they part), and that is all that schedules and caches depend on. Sequences of different salts,
// which share nothing in the cache, begin alike by chance only. A hidden token is made of all tokens up to it and a key that is nowhere
// written down.
type hiding struct {
	key   [32]byte
	vocab uint64
	state map[int64]chain // by request
}

// chain stands for the tokens of a sequence so far.
type chain [sha256.Size]byte

func newHiding(vocab int) *hiding {
	h := &hiding{vocab: uint64(vocab), state: map[int64]chain{}}
	_, _ = rand.Read(h.key[:]) // never fails (crypto/rand)
	return h
}

// admitted is the prompt of a new request, hidden.
func (h *hiding) admitted(id int64, salt uint64, prompt []int32) []int32 {
	h.state[id] = sha256.Sum256(binary.LittleEndian.AppendUint64(h.key[:], salt))
	return h.output(id, prompt)
}

// output is what follows in a request's sequence, hidden. Ids below 0 mean no token and stay.
func (h *hiding) output(id int64, tokens []int32) (hidden []int32) {
	c, known := h.state[id]
	if !known {
		return nil
	}
	var text [len(c) + 4]byte
	for _, t := range tokens {
		if t < 0 {
			hidden = append(hidden, t)
			continue
		}
		copy(text[:], c[:])
		binary.LittleEndian.PutUint32(text[len(c):], uint32(t))
		c = sha256.Sum256(text[:])
		hidden = append(hidden, int32(binary.LittleEndian.Uint64(c[:8])%h.vocab))
	}
	h.state[id] = c
	return hidden
}

// ended forgets a request.
func (h *hiding) ended(id int64) { delete(h.state, id) }
