// Package earlyexit runs a model that is left before its last layer by tokens that are sure enough by then (CALM, Schuster et al., arXiv:2207.07061): behind chosen
// layers the model's own head says what comes next, and where the likeliest token is ahead of the second by a threshold, the layers above are left out. What
// they would have written to their caches is made of the hidden state at the exit, so that later tokens find keys and values in all layers.
//
// A Runner stands for the model's program in an engine, which knows nothing of it. Steps with rows whose logits nobody wants, such as a prompt's,
// compute all layers.
package earlyexit

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
)

// Options says when tokens leave.
type Options struct {
	Layers    []int   // how many layers come before each exit, ascending
	Threshold float64 // of the difference between the probabilities of the two likeliest tokens, 0 to 1, from which on a token leaves
}

// Check says what is wrong with the options for a model of so many layers; 0: that is not known yet.
func (o Options) Check(layers int) error {
	if !(o.Threshold >= 0 && o.Threshold <= 1) {
		return fmt.Errorf("early exit: the threshold is %g; 0 to 1 is possible", o.Threshold)
	}
	if len(o.Layers) == 0 {
		return fmt.Errorf("early exit: no layers are given; layers=4,8 leaves after the fourth and the eighth")
	}
	for i, n := range o.Layers {
		switch {
		case n < 1 || layers > 0 && n >= layers:
			return fmt.Errorf("early exit: an exit after layer %d of a model of %d; at least 1 and fewer than all are possible", n, layers)
		case i > 0 && n <= o.Layers[i-1]:
			return fmt.Errorf("early exit: layers %v do not ascend", o.Layers)
		}
	}
	return nil
}

// Graphs are those of the segments between exits, one more than there are exits, and then of what fills the caches above each exit.
func (o Options) Graphs(g *graph.Graph) (all []*graph.Graph, err error) {
	if err := o.Check(g.Layers()); err != nil {
		return nil, err
	}
	from := 0
	for _, to := range append(slices.Clone(o.Layers), g.Layers()) {
		s, err := graph.Segment(g, from, to)
		if err != nil {
			return nil, err
		}
		all, from = append(all, s), to
	}
	for _, layer := range o.Layers {
		f, err := graph.FillSegment(g, layer)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}

// Runner is a compile.Runner.
type Runner struct {
	*compile.Program // of all layers
	release          func()
	o                Options
	segments, fills  []*compile.Program
	logits           []float32 // [Limits.Logits, vocab], of the last step
	own              bool      // they are of segments, and not of the program
	buffer           []float32 // of a segment's rows, where the host cannot read them in place
	active, leaving  []int     // rows of the step at hand: those that go on, and those that leave
	places           []int     // of active rows, in the segment that computed them last
	part, filled     backend.Batch
	exits            []atomic.Int64 // tokens that left at each exit, and behind the last layer
}

// Compile has tokens leave a program early: it compiles the parts of the program's graph before its passes, g, which fuse makes what runs. The program is the result's, but where
// there is an error.
func Compile(prog *compile.Program, g *graph.Graph, files compile.Tensors, o Options, fuse func(*graph.Graph) (*graph.Graph, error)) (r *Runner, err error) {
	var parts []*compile.Program
	defer func() {
		if err != nil {
			for _, p := range parts {
				p.Close()
			}
		}
	}()
	graphs, err := o.Graphs(g)
	if err != nil {
		return nil, err
	}
	for _, part := range graphs {
		if part, err = fuse(part); err != nil {
			return nil, err
		}
		p, err := prog.Part(part, files)
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	return New(prog, parts, o, func() {})
}

// New runs a program with parts of it, compiled of Options.Graphs. It owns all of them. release is called when they are closed.
func New(prog *compile.Program, parts []*compile.Program, o Options, release func()) (*Runner, error) {
	n := len(o.Layers) + 1
	r := &Runner{Program: prog, release: release, o: o, segments: parts[:n], fills: parts[n:], exits: make([]atomic.Int64, n)}
	for i, f := range r.fills {
		kept := r.segments[i].Kept(0)
		for _, to := range []*compile.Program{r.segments[i+1], f} {
			if err := to.Input(0).Takes(kept); err != nil {
				return nil, fmt.Errorf("early exit after layer %d: %w", o.Layers[i], err)
			}
		}
	}
	lim := prog.Limits()
	r.logits = make([]float32, lim.Logits*prog.Vocab())
	if !prog.HostReads() {
		r.buffer = make([]float32, len(r.logits))
	}
	return r, nil
}

// Close implements compile.Runner.
func (r *Runner) Close() {
	for _, p := range append(slices.Clone(r.segments), r.fills...) {
		p.Close()
	}
	r.Program.Close()
	r.release()
}

// Layers is the options' and the model's own: tokens leave behind so many layers. Exits is how many have left there so far. Goroutines may ask at any time.
func (r *Runner) Layers() []int { return append(slices.Clone(r.o.Layers), r.Program.Graph.Layers()) }

// Exits is beside Layers.
func (r *Runner) Exits() []int64 {
	all := make([]int64, len(r.exits))
	for i := range r.exits {
		all[i] = r.exits[i].Load()
	}
	return all
}

// CanSample implements compile.Runner: the host has to see the logits before it is known how many layers are computed.
func (r *Runner) CanSample() bool { return false }

// HostReads implements compile.Runner.
func (r *Runner) HostReads() bool { return true }

// Rows implements compile.Runner.
func (r *Runner) Rows(_ []float32, n int) ([]float32, error) {
	if !r.own && r.Program.HostReads() {
		return r.Program.Rows(nil, n)
	}
	rows := r.logits[:n*r.Vocab()]
	if !r.own {
		return rows, r.Program.Logits(rows, 0, n)
	}
	return rows, nil
}

// Logits implements compile.Runner.
func (r *Runner) Logits(dst []float32, from, n int) error {
	if !r.own {
		return r.Program.Logits(dst, from, n)
	}
	copy(dst, r.logits[from*r.Vocab():][:n*r.Vocab()])
	return nil
}

// Run implements compile.Runner.
func (r *Runner) Run(b *backend.Batch) error {
	if r.own = r.leaves(b); !r.own {
		return r.Program.Run(b)
	}
	r.active, r.places = r.active[:0], r.places[:0]
	for i := range b.Tokens {
		r.active, r.places = append(r.active, i), append(r.places, i)
	}
	for i := range r.segments {
		if err := r.segment(b, i); err != nil {
			return err
		}
		if len(r.active) == 0 {
			return nil
		}
	}
	return nil
}

// leaves reports whether rows of a step may leave early: each is to have logits, and to go on by itself.
func (r *Runner) leaves(b *backend.Batch) bool {
	lim := r.Limits()
	return len(b.LogitsIndices) == len(b.Tokens) && len(b.Tokens) <= min(lim.Seqs, lim.Logits) && len(b.Positions) == len(b.Tokens) &&
		len(b.TreeLen) == 0 && len(b.EmbeddingRows) == 0 && len(b.Adapters) == 0 && len(b.Segments) == 0
}

// segment computes the active rows of a step in segment i, keeps the logits of those that leave behind it, and fills their caches above.
func (r *Runner) segment(b *backend.Batch, i int) error {
	s := r.segments[i]
	pick(&r.part, b, r.active)
	if i > 0 {
		if err := give(s, r.segments[i-1].Kept(0), r.places); err != nil {
			return err
		}
	}
	if err := s.Run(&r.part); err != nil {
		return err
	}
	logits, err := s.Rows(r.buffer, len(r.active))
	if err != nil {
		return err
	}
	vocab := r.Vocab()
	active := r.active[:0]
	r.leaving = r.leaving[:0]
	rows := r.places[:0] // of the others, in this segment
	var left []int
	for j, row := range r.active {
		mine := logits[j*vocab : (j+1)*vocab]
		if i < len(r.fills) && lead(mine) < r.o.Threshold {
			active, rows = append(active, row), append(rows, j)
			continue
		}
		copy(r.logits[row*vocab:], mine)
		r.leaving, left = append(r.leaving, row), append(left, j)
	}
	r.exits[i].Add(int64(len(left)))
	r.active, r.places = active, rows
	if i == len(r.fills) || len(left) == 0 {
		return nil
	}
	pick(&r.filled, b, r.leaving)
	if err := give(r.fills[i], s.Kept(0), left); err != nil {
		return err
	}
	return r.fills[i].Run(&r.filled)
}

// give makes rows of kept hidden states a program's input, those that lie one behind the other by one copy.
func give(to *compile.Program, kept compile.DeviceRows, rows []int) error {
	for i := 0; i < len(rows); {
		n := 1
		for i+n < len(rows) && rows[i+n] == rows[i]+n {
			n++
		}
		if err := to.CopyRows(to.Input(0), i, kept, rows[i], n); err != nil {
			return err
		}
		i += n
	}
	return nil
}

// lead is by how much the likeliest token's probability is more than the second's.
func lead(logits []float32) float64 {
	first, second := math.Inf(-1), math.Inf(-1)
	for _, x := range logits {
		if v := float64(x); v > first {
			first, second = v, first
		} else if v > second {
			second = v
		}
	}
	sum := 0.0
	for _, x := range logits {
		sum += math.Exp(float64(x) - first)
	}
	return (1 - math.Exp(second-first)) / sum
}

// pick makes a batch of some rows of another, each a sequence by itself that ends with it.
func pick(dst, src *backend.Batch, rows []int) {
	dst.Reset(len(src.Tables), src.SeqPages)
	s := 0
	for i, row := range rows {
		for int(src.QStart[s+1]) <= row {
			s++
		}
		dst.Tokens, dst.Positions = append(dst.Tokens, src.Tokens[row]), append(dst.Positions, src.Positions[row])
		dst.QStart = append(dst.QStart, int32(i+1))
		dst.KVLen = append(dst.KVLen, int32(src.Past(s)+row+1)-src.QStart[s])
		dst.RopeLen = append(dst.RopeLen, src.RopeLen[s])
		dst.LogitsIndices = append(dst.LogitsIndices, int32(i))
		for g := range src.Tables {
			from, to := &src.Tables[g], &dst.Tables[g]
			to.Slots = append(to.Slots, from.Slots[row])
			to.Pages = append(to.Pages, from.Pages[s*src.SeqPages:(s+1)*src.SeqPages]...)
		}
	}
}
