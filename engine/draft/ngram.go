package draft

import (
	"cmp"
	"fmt"
	"math/bits"
)

// NGramOptions are the settings of an n-gram drafter, in vLLM's words.
type NGramOptions struct {
	Min int // prompt_lookup_min: tokens that must match at least; 0: 2
	Max int // prompt_lookup_max: and at most; 0: 5
}

// NewNGram is prompt lookup (Saxena, "Prompt Lookup Decoding", 2023): it looks for the latest tokens of a sequence further up in it, as many of
// them as it can find up to Max, and proposes what followed there; of several places, the last.
func NewNGram(o NGramOptions) (Drafter, error) {
	o.Max = cmp.Or(o.Max, max(5, o.Min))
	o.Min = cmp.Or(o.Min, min(2, o.Max))
	if o.Min < 1 || o.Max < o.Min || o.Max > 64 {
		return nil, fmt.Errorf("draft: n-grams of %d to %d tokens (prompt_lookup_min, prompt_lookup_max); 1 to 64 are possible", o.Min, o.Max)
	}
	return &ngram{o: o, of: map[int64]*ngramIndex{}}, nil
}

type ngram struct {
	o    NGramOptions
	of   map[int64]*ngramIndex
	free []*ngramIndex
}

// ngramIndex finds where n-grams of the least length ended in a sequence, by chains of those whose hashes fall together: who looks one up compares the tokens.
type ngramIndex struct {
	last []int32 // by hash, the end of the last n-gram; 0: none. A power of two of them, or none before the first
	prev []int32 // by the end of an n-gram, less the least length: the end of the one before it in its chain; 0: none
}

func (d *ngram) Name() string { return string(NGram) }

// Concurrent implements Concurrent.
func (d *ngram) Concurrent() bool { return true }

// Seconds: a look-up takes about a microsecond.
func (d *ngram) Seconds(seqs, _ int) float64 { return 1e-6 * float64(seqs) }

func (d *ngram) Propose(seqs []Sequence) error {
	for i := range seqs {
		s := &seqs[i]
		x := d.of[s.ID]
		if x == nil {
			x = d.index()
			d.of[s.ID] = x
		}
		x.extend(s.Tokens, d.o.Min)
		from := x.find(s.Tokens, d.o.Min, d.o.Max)
		s.Draft = Draft{}
		if from > 0 {
			s.Draft.Tokens = s.Tokens[from:min(from+s.Max, len(s.Tokens))]
		}
	}
	return nil
}

func (d *ngram) Forget(id int64, _ []int32) {
	if x := d.of[id]; x != nil {
		delete(d.of, id)
		x.reset()
		d.free = append(d.free, x)
	}
}

func (d *ngram) Close() error { return nil }

// index is an empty one.
func (d *ngram) index() *ngramIndex {
	if n := len(d.free); n > 0 {
		x := d.free[n-1]
		d.free = d.free[:n-1]
		return x
	}
	return &ngramIndex{}
}

// extend enters the n-grams that end before the last token: nothing has followed the last one yet.
func (x *ngramIndex) extend(tokens []int32, n int) {
	if len(tokens) > len(x.last) { // chains would become long
		x.prev, x.last = x.prev[:0], make([]int32, 1<<max(bits.Len(uint(2*len(tokens))), 9))
	}
	for end := len(x.prev) + n; end < len(tokens); end++ {
		h := x.slot(tokens[end-n : end])
		x.prev = append(x.prev, x.last[h])
		x.last[h] = int32(end)
	}
}

// slot is where last has n-grams of such a hash.
func (x *ngramIndex) slot(tokens []int32) uint64 {
	return hash(tokens) * 0x9e3779b97f4a7c15 >> (64 - bits.TrailingZeros(uint(len(x.last))))
}

// head is where the last n-gram ended whose hash falls together with that of the tokens; 0: none did.
func (x *ngramIndex) head(tokens []int32) int32 {
	if len(x.last) == 0 {
		return 0
	}
	return x.last[x.slot(tokens)]
}

// reset empties it. It keeps its memory, unless that is for a long text, which all others would have to empty then.
func (x *ngramIndex) reset() {
	if x.prev = x.prev[:0]; len(x.last) > keptIndex {
		x.last, x.prev = nil, nil
	}
	clear(x.last)
}

// keptIndex is how large an index may be to be used again.
const keptIndex = 1 << 13

// most is how many places are looked at for the longest match.
const mostPlaces = 16

// find is where the text goes on after the longest match of its end; 0: there is none.
func (x *ngramIndex) find(tokens []int32, n, most int) int {
	if len(tokens) < n {
		return 0
	}
	best, length := 0, n-1
	at := x.head(tokens[len(tokens)-n:])
	for range mostPlaces {
		if at == 0 {
			break
		}
		if l := common(tokens[:at], tokens, most); l > length {
			if best, length = int(at), l; l == most {
				break
			}
		}
		at = x.prev[int(at)-n]
	}
	return best
}

// common is how many tokens the ends of two texts have in common, up to most.
func common(a, b []int32, most int) int {
	n := 0
	for n < most && n < len(a) && n < len(b) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}

// hash is FNV-1a of the tokens.
func hash(tokens []int32) uint64 {
	h := uint64(14695981039346656037)
	for _, t := range tokens {
		h = (h ^ uint64(uint32(t))) * 1099511628211
	}
	return h
}
