package draft

import "slices"

// NewSuffix is decoding by suffixes (SuffixDecoding, arXiv:2411.04975): it looks for the latest tokens in the sequence itself and in texts that
// have ended, and proposes what most of the places with the longest match go on with, as long as enough of them agree. Only texts of equal
// salt are looked into.
func NewSuffix() Drafter {
	return &suffix{of: map[int64]*suffixState{}, texts: map[uint64]*corpus{}}
}

const (
	suffixMin   = 2       // tokens that must match at least
	suffixMax   = 24      // and at most (vLLM's suffix_decoding_max_tree_depth)
	suffixAgree = 0.1     // of the places, for the draft to go on (suffix_decoding_min_token_prob)
	corpusSize  = 1 << 18 // tokens of ended texts that are kept for a salt; then the older half is dropped
	mostCorpora = 64      // salts whose texts are kept, the last used
	between     = -1      // stands between two texts
)

type suffix struct {
	of     map[int64]*suffixState
	free   []*suffixState // used again
	texts  map[uint64]*corpus
	places []place // used again
	calls  int64
}

// suffixState is what is known of a sequence.
type suffixState struct {
	own  ngramIndex
	salt uint64
}

// corpus is texts that have ended, one behind the other.
type corpus struct {
	tokens []int32
	index  ngramIndex
	used   int64 // the last call that looked into it
}

// place is where a match ends, in a text.
type place struct {
	text []int32
	at   int
}

// Name implements Drafter.
func (d *suffix) Name() string { return string(Suffix) }

// Concurrent implements Concurrent.
func (d *suffix) Concurrent() bool { return true }

// Seconds implements Drafter: some places are compared.
func (d *suffix) Seconds(seqs, _ int) float64 { return 3e-6 * float64(seqs) }

// Propose implements Drafter.
func (d *suffix) Propose(seqs []Sequence) error {
	d.calls++
	places := d.places
	for i := range seqs {
		s := &seqs[i]
		x := d.of[s.ID]
		if x == nil {
			x = d.state(s.Salt)
			d.of[s.ID] = x
		}
		x.own.extend(s.Tokens, suffixMin)
		length := suffixMin - 1
		places, length = x.own.longest(places[:0], length, s.Tokens, s.Tokens)
		if c := d.texts[s.Salt]; c != nil {
			c.used = d.calls
			places, length = c.index.longest(places, length, c.tokens, s.Tokens)
		}
		s.Draft = Draft{Tokens: vote(places, min(s.Max, length))}
	}
	d.places = places[:0]
	return nil
}

// state is an empty one.
func (d *suffix) state(salt uint64) *suffixState {
	if n := len(d.free); n > 0 {
		x := d.free[n-1]
		d.free, x.salt = d.free[:n-1], salt
		return x
	}
	return &suffixState{salt: salt}
}

// longest adds the places in text where the longest match with the end of tokens ends, if it is as long as length; if it is longer, in place of
// those that there are.
func (x *ngramIndex) longest(places []place, length int, text, tokens []int32) ([]place, int) {
	if len(tokens) < suffixMin || len(text) < suffixMin {
		return places, length
	}
	at := x.head(tokens[len(tokens)-suffixMin:])
	for range 2 * mostPlaces {
		if at == 0 {
			break
		}
		l := common(text[:at], tokens, suffixMax)
		if l > length {
			places, length = places[:0], l
		}
		if l == length && l >= suffixMin {
			places = append(places, place{text, int(at)})
		}
		at = x.prev[int(at)-suffixMin]
	}
	return places, length
}

// vote is up to n tokens that the places go on with: each time what most of those that are left have, if enough agree.
func vote(places []place, n int) (tokens []int32) {
	agree := 1.0
	for len(tokens) < n {
		id, most := int32(between), 0
		for i, p := range places {
			if p.at >= len(p.text) || p.text[p.at] == between {
				continue
			}
			votes := 0
			for _, q := range places[i:] {
				if q.at < len(q.text) && q.text[q.at] == p.text[p.at] {
					votes++
				}
			}
			if votes > most {
				id, most = p.text[p.at], votes
			}
		}
		if most == 0 {
			break
		}
		if agree *= float64(most) / float64(len(places)); agree < suffixAgree {
			break
		}
		tokens = append(tokens, id)
		places = slices.DeleteFunc(places, func(p place) bool { return p.at >= len(p.text) || p.text[p.at] != id })
		for i := range places {
			places[i].at++
		}
	}
	return tokens
}

// Forget implements Drafter: the text joins those of its salt.
func (d *suffix) Forget(id int64, tokens []int32) {
	x := d.of[id]
	if x == nil {
		return
	}
	delete(d.of, id)
	x.own.reset()
	d.free = append(d.free, x)
	c := d.texts[x.salt]
	if c == nil {
		d.makeRoom()
		c = &corpus{}
		d.texts[x.salt] = c
	}
	c.used = d.calls
	c.tokens = append(append(c.tokens, tokens...), between)
	if len(c.tokens) > corpusSize {
		c.tokens = slices.Clone(c.tokens[len(c.tokens)-corpusSize/2:])
		c.index = ngramIndex{}
	}
	c.index.extend(c.tokens, suffixMin)
}

// makeRoom drops the corpus that was not used longest, if there are as many as may be.
func (d *suffix) makeRoom() {
	if len(d.texts) < mostCorpora {
		return
	}
	oldest := uint64(0)
	for salt, c := range d.texts {
		if o := d.texts[oldest]; o == nil || c.used < o.used {
			oldest = salt
		}
	}
	delete(d.texts, oldest)
}

// Close implements Drafter.
func (d *suffix) Close() error { return nil }
