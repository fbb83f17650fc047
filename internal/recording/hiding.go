package recording

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"math/bits"

	"github.com/ridge-llm/ridge/engine/draft"
)

// hiding puts other tokens in the place of those of prompts, drafts and answers, so that a recording of the requests of several tenants holds nothing
// that they sent or were answered. A replay is the same: of two sequences of one salt, the hidden ones begin alike for as long as the real ones do and
// part where those part, and that is all that schedules and caches depend on. Sequences of different salts, which share nothing in the cache, begin
// alike by chance only. A hidden token is made of all tokens up to it and a key that is nowhere written down. Requests that are shown
// stay as they are.
type hiding struct {
	key   [32]byte
	vocab uint64
	state map[int64]chain // by request; of those that are shown there is none
	shown map[int64]bool  // requests whose tokens stay
}

// chain stands for the tokens of a sequence so far.
type chain [sha256.Size]byte

func newHiding(vocab int) *hiding {
	h := &hiding{vocab: uint64(vocab), state: map[int64]chain{}, shown: map[int64]bool{}}
	_, _ = rand.Read(h.key[:]) // never fails (crypto/rand)
	return h
}

// admitted is the prompt of a new request, hidden unless the request is shown.
func (h *hiding) admitted(id int64, shown bool, salt uint64, prompt []int32) []int32 {
	if shown {
		h.shown[id] = true
		return prompt
	}
	h.state[id] = sha256.Sum256(binary.LittleEndian.AppendUint64(h.key[:], salt))
	return h.output(id, prompt)
}

// output is what follows in a request's sequence, hidden. Ids below 0 mean no token and stay.
func (h *hiding) output(id int64, tokens []int32) (hidden []int32) {
	if h.shown[id] {
		return tokens
	}
	c, known := h.state[id]
	if !known {
		return nil
	}
	for _, t := range tokens {
		if t >= 0 {
			c, t = h.next(c, t)
		}
		hidden = append(hidden, t)
	}
	h.state[id] = c
	return hidden
}

// draft is a draft for what follows in a request's sequence, hidden: a token of it that is right is the one that output makes of the answer's.
func (h *hiding) draft(id int64, d draft.Draft) (hidden []int32) {
	if h.shown[id] {
		return d.Tokens
	}
	root, known := h.state[id]
	if !known {
		return nil
	}
	chains := make([]chain, len(d.Tokens))
	for i, t := range d.Tokens {
		before := root
		if p := d.Parent(i); p >= 0 {
			before = chains[p]
		}
		chains[i], t = h.next(before, t)
		hidden = append(hidden, t)
	}
	return hidden
}

// next is the chain behind one more token, and the token that stands for it.
func (h *hiding) next(c chain, token int32) (chain, int32) {
	return c.hash(0, uint32(token)), int32(c.permuted(uint32(uint64(token)%h.vocab), uint32(h.vocab)))
}

// hash is a number of the chain and two others.
func (c *chain) hash(round byte, x uint32) chain {
	var text [len(c) + 5]byte
	copy(text[:], c[:])
	text[len(c)] = round
	binary.LittleEndian.PutUint32(text[len(c)+1:], x)
	return sha256.Sum256(text[:])
}

// permuted is x's place in the chain's permutation of the numbers below n: of two tokens behind the same others no one becomes the other. It is a Feistel
// network of four rounds over the next even power of two, walked until it comes out below n (Black and Rogaway, Ciphers with Arbitrary Finite
// Domains, 2002).
func (c *chain) permuted(x, n uint32) uint32 {
	half := (bits.Len32(n-1) + 1) / 2
	mask := uint32(1)<<half - 1
	for {
		left, right := x>>half, x&mask
		for round := byte(1); round <= 4; round++ {
			sum := c.hash(round, right)
			left, right = right, left^binary.LittleEndian.Uint32(sum[:4])&mask
		}
		if x = left<<half | right; x < n {
			return x
		}
	}
}

// ended forgets a request.
func (h *hiding) ended(id int64) {
	delete(h.state, id)
	delete(h.shown, id)
}
