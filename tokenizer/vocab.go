package tokenizer

import (
	"fmt"
	"hash/maphash"
	"strings"
)

// A vocab maps the bytes of a token to its id and back. It holds all tokens in one block of memory and looks them up in
// an open-addressed hash table, so that loading 128k tokens allocates a handful of times.
//
// The key of a token is its text as the file spells it, unless the vocabulary is byteLevel: then it is the bytes that the
// text stands for in GPT-2's alphabet. Tokens with a rune outside that alphabet (some added tokens) cannot come out of
// text; they are kept aside in foreign.
type vocab struct {
	byteLevel bool
	limit     int64       // ids are below it
	keys      []byte      // the keys of all tokens, end to end
	byID      []keyRange  // id → its key; noKey where there is none
	slots     []vocabSlot // length a power of two, at most two thirds full
	used      int         // slots in use
	foreign   map[string]int32
	foreignID map[int32]string
	seed      maphash.Seed
}

// keyRange is where a key lies in keys.
type keyRange struct{ off, n uint32 }

var noKey = keyRange{off: ^uint32(0)}

type vocabSlot struct {
	tag uint32 // high half of the hash, with its lowest bit set; 0 marks a free slot
	id  int32
	key keyRange
}

// maxSparse is how far above the number of tokens an id may lie. Real files have holes of a few thousand ids; a file with
// one token and the id 4 billion must not make us allocate 4 billion entries.
const maxSparse = 1 << 17

// newVocab makes a vocabulary for about n tokens. It grows when there are more; ids stay below n + maxSparse.
func newVocab(n int, byteLevel bool) *vocab {
	size := 16
	for size*2 < n*3 {
		size *= 2
	}
	v := &vocab{byteLevel: byteLevel, limit: int64(n) + maxSparse, seed: maphash.MakeSeed(), slots: make([]vocabSlot, size)}
	v.byID = make([]keyRange, 0, n)
	v.keys = make([]byte, 0, 8*n)
	return v
}

// add maps the token text to id. A text that is there already gets the new id, as in a JSON object's later key; add then
// returns the old one, and otherwise -1.
func (v *vocab) add(text string, id int64) (old int32, err error) {
	if id < 0 || id >= v.limit {
		return -1, fmt.Errorf("tokenizer: token %q has id %d, far outside a vocabulary of about %d tokens; renumber it", text, id, v.limit-maxSparse)
	}
	for int64(len(v.byID)) <= id {
		v.byID = append(v.byID, noKey)
	}
	start := len(v.keys)
	if v.byteLevel {
		keys, ok := appendAlphabetBytes(v.keys, text)
		if !ok {
			return v.addForeign(text, int32(id)), nil
		}
		v.keys = keys
	} else {
		v.keys = append(v.keys, text...)
	}
	key := v.keys[start:]
	hash := maphash.Bytes(v.seed, key)
	slot := v.find(hash, key)
	if slot.tag != 0 {
		v.keys = v.keys[:start]
		old, slot.id = slot.id, int32(id)
		v.byID[id] = slot.key
		return old, nil
	}
	*slot = vocabSlot{tagOf(hash), int32(id), keyRange{uint32(start), uint32(len(key))}}
	v.byID[id] = slot.key
	if v.used++; v.used*3 > len(v.slots)*2 {
		v.grow()
	}
	return -1, nil
}

func (v *vocab) addForeign(text string, id int32) (old int32) {
	if v.foreign == nil {
		v.foreign, v.foreignID = map[string]int32{}, map[int32]string{}
	}
	old, ok := v.foreign[text]
	if !ok {
		old = -1
	}
	text = strings.Clone(text) // it may be a slice of the whole file
	v.foreign[text], v.foreignID[id] = id, text
	return old
}

func tagOf(hash uint64) uint32 { return uint32(hash>>32) | 1 }

// find returns the slot that holds key, whose hash is given, or the free one where it belongs.
func (v *vocab) find(hash uint64, key []byte) *vocabSlot {
	tag, mask := tagOf(hash), len(v.slots)-1
	for i := int(hash) & mask; ; i = (i + 1) & mask {
		if s := &v.slots[i]; s.tag == 0 || s.tag == tag && string(v.at(s.key)) == string(key) {
			return s
		}
	}
}

func (v *vocab) grow() {
	old := v.slots
	v.slots = make([]vocabSlot, 2*len(old))
	for _, s := range old {
		if s.tag != 0 {
			key := v.at(s.key)
			*v.find(maphash.Bytes(v.seed, key), key) = s
		}
	}
}

func (v *vocab) at(r keyRange) []byte { return v.keys[r.off:][:r.n] }

// lookup returns the id of the token with this key, or -1.
func (v *vocab) lookup(key string) int32 {
	hash := maphash.String(v.seed, key)
	tag, mask := tagOf(hash), len(v.slots)-1
	for i := int(hash) & mask; ; i = (i + 1) & mask {
		s := &v.slots[i]
		if s.tag == 0 {
			return -1
		}
		if s.tag == tag && string(v.at(s.key)) == key {
			return s.id
		}
	}
}

// lookupBytes is lookup for a key that is not a string yet.
func (v *vocab) lookupBytes(key []byte) int32 {
	if s := v.find(maphash.Bytes(v.seed, key), key); s.tag != 0 {
		return s.id
	}
	return -1
}

// id returns the id of the token that the file spells text, or -1.
func (v *vocab) id(text string) int32 {
	if !v.byteLevel {
		return v.lookup(text)
	}
	var buf [64]byte
	if key, ok := appendAlphabetBytes(buf[:0], text); ok {
		return v.lookupBytes(key)
	}
	if id, ok := v.foreign[text]; ok {
		return id
	}
	return -1
}

// text returns the token with this id as the file spells it.
func (v *vocab) text(id int32) (string, bool) {
	key, ok := v.bytes(id)
	if !ok {
		text, ok := v.foreignID[id]
		return text, ok
	}
	if v.byteLevel {
		return toAlphabet(string(key)), true
	}
	return string(key), true
}

// bytes returns the key of the token with this id; not ok for tokens outside the byte alphabet.
func (v *vocab) bytes(id int32) ([]byte, bool) {
	if id < 0 || int(id) >= len(v.byID) || v.byID[id] == noKey {
		return nil, false
	}
	return v.at(v.byID[id]), true
}

// each calls f with every key and its id.
func (v *vocab) each(f func(key []byte, id int32)) {
	for _, s := range v.slots {
		if s.tag != 0 {
			f(v.at(s.key), s.id)
		}
	}
}

// count is the number of tokens, idLimit one more than the highest id.
func (v *vocab) count() int   { return v.used + len(v.foreign) }
func (v *vocab) idLimit() int { return len(v.byID) }

// hasAllBytes reports whether every single byte is a token, so that no text is unknown.
func (v *vocab) hasAllBytes() bool {
	for b := range 256 {
		if v.lookupBytes([]byte{byte(b)}) < 0 {
			return false
		}
	}
	return true
}
