package draft

import (
	"cmp"
	"fmt"
	"slices"
)

// LookaheadOptions are the settings of lookahead decoding, in TensorRT-LLM's words. A draft has up to (Window + Pool) · (NGram - 1) tokens.
type LookaheadOptions struct {
	Window int // max_window_size, W: places after the last token that are guessed at once; 0: 4
	NGram  int // max_ngram_size, N: tokens of an n-gram; 0: 4
	Pool   int // max_verification_set_size, G: n-grams that are verified in a step, and kept for a first token; 0: 4
}

// WithDefaults is the settings with what stands for 0.
func (o LookaheadOptions) WithDefaults() LookaheadOptions {
	return LookaheadOptions{Window: cmp.Or(o.Window, 4), NGram: cmp.Or(o.NGram, 4), Pool: cmp.Or(o.Pool, 4)}
}

// Tokens is the most tokens of a draft.
func (o LookaheadOptions) Tokens() int {
	o = o.WithDefaults()
	return (o.Window + o.Pool) * (o.NGram - 1)
}

// NewLookahead is lookahead decoding (Fu et al., arXiv:2402.02057), which needs no second model. A draft is two things in one token tree: n-grams that
// begin with the last token, as a pool has them, and a window of guesses at the next W places, which the step brings further by one
// Jacobi iteration each. What a place of the window went through in N-1 steps is an n-gram of the model's own, and goes into the pool.
func NewLookahead(o LookaheadOptions) (Drafter, error) {
	o = o.WithDefaults()
	if o.Window < 1 || o.NGram < 2 || o.Pool < 1 || o.Window > MaxTokens || o.NGram > MaxTokens || o.Pool > MaxTokens || o.Tokens() > MaxTokens {
		return nil, fmt.Errorf("draft: lookahead with max_window_size %d, max_ngram_size %d and max_verification_set_size %d; (window + set) · (n-gram - 1) must be at most %d, and each at least 1, an n-gram 2",
			o.Window, o.NGram, o.Pool, MaxTokens)
	}
	return &lookahead{o: o, of: map[int64]*window{}}, nil
}

type lookahead struct {
	o  LookaheadOptions
	of map[int64]*window
}

// window is what is known of a sequence.
type window struct {
	// levels are the guesses of the latest steps, [up to N-1][W], the oldest first. The token in column j of level k is one for place at+j+k of the sequence: it
	// comes after that in column j of the level before, and one of the oldest level after the column before.
	levels  [][]int32
	at      int // place of the first column
	pool    map[int32][][]int32
	entered int // tokens of the sequence whose n-grams are in the pool
	draft   Draft
}

// Name implements Drafter.
func (d *lookahead) Name() string { return string(Lookahead) }

// Concurrent implements Concurrent.
func (d *lookahead) Concurrent() bool { return true }

// Trees implements Branching.
func (d *lookahead) Trees() bool { return true }

// Seconds implements Drafter: a few look-ups.
func (d *lookahead) Seconds(seqs, _ int) float64 { return 2e-6 * float64(seqs) }

// Propose implements Drafter. Without room for the whole window it has none.
func (d *lookahead) Propose(seqs []Sequence) error {
	for i := range seqs {
		s := &seqs[i]
		x := d.of[s.ID]
		if x == nil {
			x = &window{pool: map[int32][][]int32{}, at: len(s.Tokens), levels: [][]int32{nil}}
			d.of[s.ID] = x
		}
		x.enter(d.o, s.Tokens)
		x.shift(d.o, s.Tokens)
		x.tree(d.o, s.Tokens[len(s.Tokens)-1], s.Max)
		s.Draft = x.draft
	}
	return nil
}

// enter puts the n-grams of the text itself into the pool.
func (x *window) enter(o LookaheadOptions, tokens []int32) {
	for ; x.entered+o.NGram <= len(tokens); x.entered++ {
		x.add(o, tokens[x.entered:x.entered+o.NGram])
	}
}

// add puts an n-gram into the pool. Of those with its first token the latest are kept, the latest last.
func (x *window) add(o LookaheadOptions, ngram []int32) {
	all, rest := x.pool[ngram[0]], slices.Clone(ngram[1:])
	all = slices.DeleteFunc(all, func(n []int32) bool { return slices.Equal(n, rest) })
	if len(all) == o.Pool {
		all = slices.Delete(all, 0, 1)
	}
	x.pool[ngram[0]] = append(all, rest)
}

// shift moves the window to the sequence's end. What comes in at its right are tokens of the text.
func (x *window) shift(o LookaheadOptions, tokens []int32) {
	gone := min(max(len(tokens)-x.at, 0), o.Window)
	for k, level := range x.levels {
		if len(level) == o.Window {
			level = level[:copy(level, level[gone:])]
		}
		for len(level) < o.Window {
			place := uint64(len(tokens) + len(level) + k)
			level = append(level, tokens[hash([]int32{int32(place)})%uint64(len(tokens))])
		}
		x.levels[k] = level
	}
	x.at = len(tokens)
}

// tree makes the draft of at most so many tokens: n-grams that begin with the last token, the latest first, and then the window, level by level.
func (x *window) tree(o LookaheadOptions, last int32, most int) {
	d := &x.draft
	d.Tokens, d.Parents, d.Window = d.Tokens[:0], d.Parents[:0], 0
	guesses := len(x.levels) * o.Window
	if guesses > most {
		guesses = 0
	}
	for _, ngram := range slices.Backward(x.pool[last]) {
		at, shared := -1, 0
		for shared < len(ngram) {
			next := d.Child(at, ngram[shared])
			if next < 0 {
				break
			}
			at, shared = next, shared+1
		}
		if len(d.Tokens)+len(ngram)-shared > most-guesses {
			break
		}
		for _, id := range ngram[shared:] {
			d.Tokens, d.Parents = append(d.Tokens, id), append(d.Parents, at)
			at = len(d.Tokens) - 1
		}
	}
	if guesses == 0 {
		return
	}
	first := len(d.Tokens)
	for k, level := range x.levels {
		for j, id := range level {
			parent := len(d.Tokens) - o.Window
			if k == 0 {
				if parent = len(d.Tokens) - 1; j == 0 {
					parent = -1
				}
			}
			d.Tokens, d.Parents = append(d.Tokens, id), append(d.Parents, parent)
		}
	}
	d.Window = len(d.Tokens) - first
}

// Observe implements Observer: the tokens after the latest level are the next one.
func (d *lookahead) Observe(id int64, after []int32) {
	x := d.of[id]
	if x == nil || len(after) != len(x.levels)*d.o.Window {
		return // the window was cut
	}
	newest := after[len(after)-d.o.Window:]
	ngram := make([]int32, 0, d.o.NGram)
	if len(x.levels) < d.o.NGram-1 {
		x.levels = append(x.levels, slices.Clone(newest))
		return
	}
	for j, id := range newest {
		ngram = ngram[:0]
		for _, level := range x.levels {
			ngram = append(ngram, level[j])
		}
		x.add(d.o, append(ngram, id))
	}
	oldest := x.levels[0]
	copy(x.levels, x.levels[1:])
	copy(oldest, newest)
	x.levels[len(x.levels)-1] = oldest
	x.at++ // what is in column j now comes a place later than what was there
}

// Forget implements Drafter.
func (d *lookahead) Forget(id int64, _ []int32) { delete(d.of, id) }

// Close implements Drafter.
func (d *lookahead) Close() error { return nil }
