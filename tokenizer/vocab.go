package tokenizer

import (
	"fmt"
	"hash/maphash"
)

// A vocab maps the bytes of a token to its id and back. It holds all tokens in one block of memory and looks them up in
// an open-addressed hash table, so that loading 128k tokens allocates a handful of times.
//
// The key of a token is its text as the file spells it, unless the vocabulary is byteLevel: then it is the bytes that the
// text stands for in GPT-2's alphabet. Tokens with a rune outside that alphabet (some added tokens) cannot come out of
// text; they are kept aside in foreign.
type vocab struct {
	byteLevel bool
	limit     int64            // ids are below it
	keys      []byte           // the keys of all entries, end to end
	end       []uint32         // entry → where its key ends in keys
	ids       []int32          // entry → id
	entry     []int32          // id → entry, or -1
	slots     []vocabSlot      // length a power of two, at most two thirds full
	foreign   map[string]int32 // text → id, of tokens outside the byte alphabet
	foreignID map[int32]string
	seed      maphash.Seed
}

type vocabSlot struct {
	tag   uint32 // high half of the hash
	entry int32  // entry+1; 0 marks a free slot
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
	v.end = make([]uint32, 0, n)
	v.ids = make([]int32, 0, n)
	v.entry = make([]int32, 0, n)
	v.keys = make([]byte, 0, 8*n)
	return v
}

// add maps the token text to id. A text that is there already gets the new id, as in a JSON object's later key.
func (v *vocab) add(text string, id int64) error {
	if id < 0 || id >= v.limit {
		return fmt.Errorf("tokenizer: token %q has id %d, far outside a vocabulary of about %d tokens; renumber it", text, id, v.limit-maxSparse)
	}
	start := len(v.keys)
	if v.byteLevel {
		key, ok := appendAlphabetBytes(v.keys, text)
		if !ok {
			if v.foreign == nil {
				v.foreign, v.foreignID = map[string]int32{}, map[int32]string{}
			}
			v.foreign[text], v.foreignID[int32(id)] = int32(id), text
			v.reserve(int(id))
			return nil
		}
		v.keys = key
	} else {
		v.keys = append(v.keys, text...)
	}
	slot, found := v.find(v.keys[start:])
	if found {
		v.keys = v.keys[:start]
		e := v.slots[slot].entry - 1
		v.ids[e] = int32(id)
		v.reserve(int(id))
		v.entry[id] = e
		return nil
	}
	v.end = append(v.end, uint32(len(v.keys)))
	v.ids = append(v.ids, int32(id))
	v.slots[slot].entry = int32(len(v.ids))
	v.reserve(int(id))
	v.entry[id] = int32(len(v.ids) - 1)
	if len(v.ids)*3 > len(v.slots)*2 {
		v.grow()
	}
	return nil
}

func (v *vocab) reserve(id int) {
	for len(v.entry) <= id {
		v.entry = append(v.entry, -1)
	}
}

// find returns the slot that holds key, or the free one where it belongs, already tagged.
func (v *vocab) find(key []byte) (slot int, found bool) {
	h := maphash.Bytes(v.seed, key)
	tag, mask := uint32(h>>32), len(v.slots)-1
	for i := int(h) & mask; ; i = (i + 1) & mask {
		s := &v.slots[i]
		if s.entry == 0 {
			s.tag = tag
			return i, false
		}
		if s.tag == tag && string(v.key(s.entry-1)) == string(key) {
			return i, true
		}
	}
}

func (v *vocab) grow() {
	v.slots = make([]vocabSlot, 2*len(v.slots))
	for e := range v.ids {
		slot, _ := v.find(v.key(int32(e)))
		v.slots[slot].entry = int32(e + 1)
	}
}

func (v *vocab) key(entry int32) []byte {
	start := uint32(0)
	if entry > 0 {
		start = v.end[entry-1]
	}
	return v.keys[start:v.end[entry]]
}

// lookup returns the id of the token with this key, or -1.
func (v *vocab) lookup(key string) int32 {
	h := maphash.String(v.seed, key)
	tag, mask := uint32(h>>32), len(v.slots)-1
	for i := int(h) & mask; ; i = (i + 1) & mask {
		s := v.slots[i]
		if s.entry == 0 {
			return -1
		}
		if s.tag == tag && string(v.key(s.entry-1)) == key {
			return v.ids[s.entry-1]
		}
	}
}

// lookupBytes is lookup for a key that is not a string yet.
func (v *vocab) lookupBytes(key []byte) int32 {
	h := maphash.Bytes(v.seed, key)
	tag, mask := uint32(h>>32), len(v.slots)-1
	for i := int(h) & mask; ; i = (i + 1) & mask {
		s := v.slots[i]
		if s.entry == 0 {
			return -1
		}
		if s.tag == tag && string(v.key(s.entry-1)) == string(key) {
			return v.ids[s.entry-1]
		}
	}
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
	if id < 0 || int(id) >= len(v.entry) || v.entry[id] < 0 {
		return nil, false
	}
	return v.key(v.entry[id]), true
}

// count is the number of tokens, idLimit one more than the highest id.
func (v *vocab) count() int   { return len(v.ids) + len(v.foreign) }
func (v *vocab) idLimit() int { return len(v.entry) }

// hasAllBytes reports whether every single byte is a token, so that no text is unknown.
func (v *vocab) hasAllBytes() bool {
	for b := range 256 {
		if v.lookupBytes([]byte{byte(b)}) < 0 {
			return false
		}
	}
	return true
}
