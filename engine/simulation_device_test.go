package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/sampling"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
)

// simVocab is the token ids of simulated models; simEnd ends an answer.
const (
	simVocab = 64
	simEnd   = 0
)

// cell is what the cache has of a token. A model that reads a cell of another token, or of another place, computes something else.
type cell struct{ token, position int32 }

// simRunner is a model that is its cache: the token that it computes depends on every cell that it may look at, so that an answer
// shows any page that was lost, mixed up, overwritten or read too late. Its device has faults.
type simRunner struct {
	compile.Runner // nil: what is not below is not called
	lim            backend.Limits
	groups         []graph.CacheGroup
	memory, host   [][]cell // of each group
	samples        bool     // the device samples
	clock          *time.Time
	faults         simFaults
	rng            *rand.Rand

	next     []int32   // of the step last run, by row of its logits
	sampled  []int32   // by the step last sampled from
	inFlight [][]int32 // results of steps that are not collected
	logits   []float32
	runs     int
}

// simFaults is how often each fault happens, as a fraction of the calls.
type simFaults struct {
	run, lost, panics, results, copies, swap float64
	slow, jump                               float64
}

var errSim = errors.New("injected fault")

// fault reports whether a fault of that rate happens now.
func (r *simRunner) fault(rate float64) bool { return rate > 0 && r.rng.Float64() < rate }

func newSimRunner(lim backend.Limits, samples bool, faults simFaults, rng *rand.Rand, clock *time.Time) *simRunner {
	r := &simRunner{lim: lim, samples: samples, faults: faults, rng: rng, clock: clock, groups: []graph.CacheGroup{{}}}
	if len(lim.Groups) > 0 {
		r.groups = nil
		for _, g := range lim.Groups {
			r.groups = append(r.groups, graph.CacheGroup{Window: g.Window})
		}
	}
	for i := range r.groups {
		r.memory = append(r.memory, make([]cell, lim.GroupPages(i)*lim.PageSize))
		r.host = append(r.host, make([]cell, lim.GroupSwapPages(i)*lim.PageSize))
	}
	for _, m := range slices.Concat(r.memory, r.host) {
		r.overwrite(m)
	}
	return r
}

// overwrite leaves cells that no text has.
func (r *simRunner) overwrite(cells []cell) {
	for i := range cells {
		cells[i] = cell{-1, r.rng.Int32()}
	}
}

func (r *simRunner) Limits() backend.Limits                              { return r.lim }
func (r *simRunner) Groups() []graph.CacheGroup                          { return r.groups }
func (r *simRunner) PageBytes(int) int64                                 { return 1 }
func (r *simRunner) Slots() []*graph.Weight                              { return nil }
func (r *simRunner) Vocab() int                                          { return simVocab }
func (r *simRunner) Ids() int                                            { return simVocab }
func (r *simRunner) Encoder() bool                                       { return false }
func (r *simRunner) HostReads() bool                                     { return true }
func (r *simRunner) HiddenWidth() int                                    { return 1 }
func (r *simRunner) HiddenOfAll() bool                                   { return false }
func (r *simRunner) CanSample() bool                                     { return r.samples }
func (r *simRunner) RunsAhead() bool                                     { return true }
func (r *simRunner) ThreadLender() (l backend.ThreadLender, threads int) { return nil, 1 }
func (r *simRunner) Close()                                              {}

// Run writes the step's tokens into the cache and computes the next token of every row of logits. A step that fails has overwritten
// what it was to write.
func (r *simRunner) Run(b *backend.Batch) error {
	r.runs++
	*r.clock = r.clock.Add(time.Duration(1+r.rng.IntN(5)) * time.Millisecond)
	if r.fault(r.faults.slow) {
		*r.clock = r.clock.Add(time.Duration(r.rng.IntN(20)) * time.Second)
	}
	if r.fault(r.faults.jump) {
		*r.clock = r.clock.Add(time.Duration(r.rng.IntN(7200)-3600) * time.Second)
	}
	failed := r.fault(r.faults.run)
	for s := range b.KVLen {
		for row := b.QStart[s]; row < b.QStart[s+1]; row++ {
			k := b.KVLen[s] - b.QStart[s+1] + row
			token := b.Tokens[row]
			if token < 0 {
				token = r.sampled[-1-token]
			}
			for g := range r.groups {
				t := b.Table(g)
				if at := t.Pages[s*b.SeqPages+int(k)/r.lim.PageSize]*int32(r.lim.PageSize) + k%int32(r.lim.PageSize); at != t.Slots[row] {
					return fmt.Errorf("sequence %d writes token %d of group %d to %d and will read it at %d", s, k, g, t.Slots[row], at)
				}
				r.memory[g][t.Slots[row]] = cell{token, b.Positions[row]}
				if failed {
					r.overwrite(r.memory[g][t.Slots[row]:][:1])
				}
			}
		}
	}
	switch {
	case r.fault(r.faults.panics):
		panic("injected panic")
	case r.fault(r.faults.lost):
		return fmt.Errorf("injected: %w", backend.ErrLost)
	case failed:
		return errSim
	}
	r.compute(b)
	return nil
}

// compute sets next.
func (r *simRunner) compute(b *backend.Batch) {
	r.next = r.next[:0]
	s := 0
	for _, row := range b.LogitsIndices {
		for row >= b.QStart[s+1] {
			s++
		}
		h := newSimHash()
		for g := range r.groups {
			t, seen := b.Table(g), b.KeysOf(s, int(row), backend.Mask{Window: r.groups[g].Window})
			for p := seen.Low; p < seen.High; p++ {
				if !seen.Sees(p) {
					continue
				}
				h.add(r.memory[g][int(t.Pages[s*b.SeqPages+p/r.lim.PageSize])*r.lim.PageSize+p%r.lim.PageSize])
			}
		}
		r.next = append(r.next, h.token())
	}
}

// from is the first token that token k looks at in a group.
func (r *simRunner) from(group, k int) int {
	if w := r.groups[group].Window; w > 0 {
		return max(0, k+1-w)
	}
	return 0
}

// after is the token that follows a text, as the model says when it is alone.
func (r *simRunner) after(text []int32) int32 {
	h := newSimHash()
	for g := range r.groups {
		for p := r.from(g, len(text)-1); p < len(text); p++ {
			h.add(cell{text[p], int32(p)})
		}
	}
	return h.token()
}

// simHash makes a token of cells.
type simHash uint64

func newSimHash() simHash { return 14695981039346656037 }

func (h *simHash) add(c cell) {
	*h = (*h ^ simHash(uint32(c.token))<<32 ^ simHash(uint32(c.position))) * 1099511628211
	*h ^= *h >> 29
}

func (h *simHash) token() int32 { return int32(*h >> 7 % simVocab) }

// Rows implements compile.Runner.
func (r *simRunner) Rows(_ []float32, n int) ([]float32, error) {
	if r.fault(r.faults.results) {
		return nil, errSim
	}
	if n != len(r.next) {
		return nil, fmt.Errorf("%d rows of logits are read, and the step has %d", n, len(r.next))
	}
	r.logits = slices.Grow(r.logits[:0], n*simVocab)[:n*simVocab]
	clear(r.logits)
	for i, token := range r.next {
		r.logits[i*simVocab+int(token)] = 10
	}
	return r.logits, nil
}

// Sample implements compile.Runner. The engine's tests of samplers look at what a Sample says; here it is greedy.
func (r *simRunner) Sample(samples []sampling.Sample) error {
	var tokens []int32
	for _, s := range samples {
		tokens = append(tokens, r.next[s.Row])
	}
	r.sampled = tokens
	r.inFlight = append(r.inFlight, tokens)
	return nil
}

// SampleResults implements compile.Runner.
func (r *simRunner) SampleResults(dst []sampling.Result) (time.Duration, error) {
	if len(r.inFlight) == 0 {
		return 0, errors.New("results are waited for and no step is in flight")
	}
	tokens := r.inFlight[0]
	if dst != nil && r.fault(r.faults.results) {
		return 0, errSim // the step stays in flight: it is drained
	}
	r.inFlight = slices.Delete(r.inFlight, 0, 1)
	if dst != nil && len(dst) != len(tokens) {
		return 0, fmt.Errorf("%d results are read of a step with %d", len(dst), len(tokens))
	}
	for i := range dst {
		dst[i] = sampling.Result{Token: tokens[i]}
	}
	return time.Millisecond, nil
}

// page is the cells of a page.
func (r *simRunner) page(of [][]cell, group int, page int32) []cell {
	return of[group][int(page)*r.lim.PageSize:][:r.lim.PageSize]
}

// CopyPage implements compile.Runner.
func (r *simRunner) CopyPage(group int, from, to int32) error {
	if r.fault(r.faults.copies) {
		return errSim
	}
	copy(r.page(r.memory, group, to), r.page(r.memory, group, from))
	return nil
}

// SwapOut implements compile.Runner.
func (r *simRunner) SwapOut(group int, from, to []int32) error {
	return r.move(group, r.memory, r.host, from, to)
}

// SwapIn implements compile.Runner.
func (r *simRunner) SwapIn(group int, from, to []int32) error {
	return r.move(group, r.host, r.memory, from, to)
}

func (r *simRunner) move(group int, source, target [][]cell, from, to []int32) error {
	for i := range from {
		if r.fault(r.faults.swap) {
			return errSim
		}
		copy(r.page(target, group, to[i]), r.page(source, group, from[i]))
	}
	return nil
}
