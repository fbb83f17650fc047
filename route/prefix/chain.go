// Package prefix knows which replica holds the beginning of which prompt.
//
// A prompt is a chain of units: pieces of its text of one length, or blocks of its tokens. The key of a unit is a hash of all units up to
// it, so that equal keys are equal beginnings. A tree has the keys that each replica holds: by what was sent there, or by what the replica
// itself says (KV events). Wrong keys cost time, never an answer: the replica looks for itself.
package prefix

import "math/bits"

// Unit is the bytes of text in a unit.
const Unit = 128

// Key stands for a beginning of a prompt.
type Key uint64

// Hash starts a chain for what sets prompts apart: the model's name, a salt.
func Hash(seed Key, text string) Key {
	h := uint64(seed)
	for len(text) >= 8 {
		h = mix(h, word(text))
		text = text[8:]
	}
	var last uint64
	for i := 0; i < len(text); i++ {
		last |= uint64(text[i]) << (8 * i)
	}
	return Key(mix(h, last|uint64(len(text))<<56))
}

// Seed is where the chains of a model's prompts begin; salts set apart what may not be shared.
func Seed(model, tenant, salt string) Key { return Hash(Hash(Hash(0, model), tenant), salt) }

// Text appends the keys of the full units of a text.
func Text(chain []Key, seed Key, text []byte) []Key {
	h := uint64(seed)
	for ; len(text) >= Unit; text = text[Unit:] {
		for i := 0; i < Unit; i += 8 {
			h = mix(h, word(text[i:i+8]))
		}
		chain = append(chain, Key(h))
	}
	return chain
}

// Tokens appends the keys of the full blocks of a prompt's tokens, of so many each.
func Tokens(chain []Key, seed Key, tokens []int32, block int) []Key {
	for ; len(tokens) >= block; tokens = tokens[block:] {
		seed = Block(seed, tokens[:block])
		chain = append(chain, seed)
	}
	return chain
}

// Block is the key of a block of tokens after another's.
func Block(before Key, tokens []int32) Key {
	h := uint64(before)
	for _, t := range tokens {
		h = mix(h, uint64(uint32(t)))
	}
	return Key(mix(h, uint64(len(tokens))))
}

func word[T string | []byte](b T) uint64 {
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 | uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}

// mix is a step of a hash: the two halves of a product, as wyhash has it. It is the same in every process, so that keys can be kept.
func mix(h, x uint64) uint64 {
	high, low := bits.Mul64(h^0xa0761d6478bd642f, x^0xe7037ed1a0b428db)
	return high ^ low
}
