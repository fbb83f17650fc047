package ranks

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/sampling"
	"github.com/ridge-llm/ridge/comm/world"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/pass"
)

// begin is rank 0's first message: the size of steps and caches.
type begin struct{ Limits backend.Limits }

// begun is a rank's answer: what its part takes, or why it cannot be computed there.
type begun struct {
	Problem string
	Samples bool    // the device is ready to sample
	Pages   []int64 // bytes of a page, by cache group
	Memory  compile.Memory
}

// compileRank makes the program of this rank's part of g, the graph before the passes.
func compileRank(g *graph.Graph, o pass.Options, dev backend.Device, files compile.Tensors, lim backend.Limits, w *world.World) (*compile.Program, error) {
	o.Rank = Place(o.Layout, w.Rank())
	part, err := pass.Run(g, pass.All, o)
	if err != nil {
		return nil, err
	}
	var groups compile.Ranks
	device := o.Layout.Number(o.Rank)
	for i, g := range o.Layout.Groups() {
		if slices.Contains(g.Devices, device) {
			groups.Set(g.Exchange, w.Group(i))
		}
	}
	return compile.CompileRank(part, g, dev, files, lim, groups)
}

// abortWith ends what a program's device waits for when the group has failed.
func abortWith(p *compile.Program, w *world.World) {
	<-w.Lost()
	if err := w.Err(); !errors.Is(err, world.ErrOver) {
		p.Abort(err)
	}
}

// Work does what rank 0 says on this rank's part of a model, until it ends the group, which is no error. It calls loaded when the part is there.
func Work(g *graph.Graph, o pass.Options, dev backend.Device, files compile.Tensors, w *world.World, loaded func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("ranks: panic: %v\n%s", r, debug.Stack())
		}
		if errors.Is(err, world.ErrOver) {
			err = nil
		} else if err != nil {
			w.Fail(fmt.Errorf("rank %d: %w", w.Rank(), err))
		}
	}()
	data, err := w.Receive()
	if err != nil {
		return err
	}
	var b begin
	if err := json.Unmarshal(data, &b); err != nil {
		return fmt.Errorf("ranks: the first message of rank 0: %w", err)
	}
	p, err := compileRank(g, o, dev, files, b.Limits, w)
	answer := begun{}
	if err != nil {
		answer.Problem = err.Error()
	} else {
		defer p.Close()
		go abortWith(p, w)
		answer.Memory, answer.Samples = p.Memory(), o.Layout.Tensor == w.Size() && p.CanSample()
		for group := range p.Groups() {
			answer.Pages = append(answer.Pages, p.PageBytes(group))
		}
	}
	if data, err = json.Marshal(answer); err != nil {
		return err
	}
	if err := w.Send(0, data); err != nil || answer.Problem != "" {
		return errors.Join(err, errors.New(answer.Problem))
	}
	loaded()
	k := &worker{program: p, world: w, limits: b.Limits, can: answer.Samples}
	for {
		data, err := w.Receive()
		if err != nil {
			return err
		}
		if err := k.do(data); err != nil {
			return w.Reason(err) // a step that nobody waits for any more is no failure where rank 0 has ended the group
		}
	}
}

// worker does what messages say.
type worker struct {
	program *compile.Program
	world   *world.World
	limits  backend.Limits // of the engine, whose pages several ranks may have parts of
	batch   backend.Batch
	can     bool // the device samples
	samples []sampling.Sample
	sampled bool // a step whose tokens nobody has waited for
}

func (k *worker) do(data []byte) error {
	if len(data) == 0 {
		return errCut
	}
	p, r := k.program, reader{data: data[1:]}
	switch data[0] {
	case run, runBody:
		return k.run(data[0] == runBody, data[1:])
	case copyPage:
		group, from, to := r.int(), r.int(), r.int()
		if err := k.check(&r, group); err != nil {
			return err
		}
		return p.CopyPage(group, int32(from), int32(to))
	case storeState, fetchState:
		state, at, into, pages := r.int(), r.int(), r.int(), r.ints()
		if err := k.check(&r, state, into); err != nil || p.PageBytes(state) == 0 {
			return err // a stage without recurrent layers
		}
		if data[0] == storeState {
			return p.StoreState(state, int32(at), into, pages)
		}
		return p.FetchState(state, int32(at), into, pages)
	case swapOut, swapIn:
		group, from, to := r.int(), r.ints(), r.ints()
		if err := k.check(&r, group); err != nil {
			return err
		}
		if len(from) != len(to) {
			return fmt.Errorf("ranks: %d pages are to be swapped to %d", len(from), len(to))
		}
		if data[0] == swapOut {
			return p.SwapOut(group, from, to)
		}
		return p.SwapIn(group, from, to)
	case setAdapter:
		return k.setAdapter(&r)
	case sample:
		return k.sample(&r)
	case warm:
		most := int64(r.int()) << 20
		if err := r.end(); err != nil {
			return err
		}
		p.Warm()
		p.PrefaultAhead(most)
		return nil
	}
	return fmt.Errorf("ranks: rank 0 asks for %d, which this version does not know", data[0])
}

// check ends a message that names cache groups.
func (k *worker) check(r *reader, groups ...int) error {
	for _, g := range groups {
		if n := len(k.program.Groups()); g < 0 || g >= n {
			return fmt.Errorf("ranks: rank 0 names cache group %d of %d", g, n)
		}
	}
	return r.end()
}

func (k *worker) run(body bool, data []byte) error {
	if err := k.batch.Decode(data); err != nil {
		return err
	}
	if err := k.batch.Check(k.limits, k.program.AllIds()); err != nil {
		return err
	}
	if body {
		return k.program.RunBody(&k.batch)
	}
	return k.program.Run(&k.batch)
}

// sample samples what rank 0 does, for the next step. Of the results, which rank 0 has, those of the step before are dropped.
func (k *worker) sample(r *reader) error {
	k.samples = r.samples(k.samples, k.limits.Logits, k.program.Vocab())
	if err := r.end(); err != nil {
		return err
	}
	if !k.can {
		return errors.New("ranks: rank 0 has this rank sample, whose device cannot")
	}
	if err := k.program.Sample(k.samples); err != nil {
		return err
	}
	before := k.sampled
	if k.sampled = true; !before {
		return nil
	}
	_, err := k.program.SampleResults(nil)
	return err
}

// setAdapter fills a slot and says when it is filled.
func (k *worker) setAdapter(r *reader) error {
	slot := r.int()
	fit := map[*graph.Weight]*graph.LowRank{}
	for _, w := range k.program.Slots() {
		fit[w] = r.lowRank()
	}
	if err := r.end(); err != nil {
		return err
	}
	if n := k.program.Limits().Adapters; slot < 0 || slot >= n {
		return fmt.Errorf("ranks: rank 0 fills slot %d of %d", slot, n)
	}
	filled := make(chan error, 1)
	err := k.program.SetAdapter(slot, func(w *graph.Weight) *graph.LowRank { return fit[w] }, func(err error) { filled <- err })
	if err == nil {
		err = <-filled
	}
	text := ""
	if err != nil {
		text = err.Error()
	}
	return k.world.Send(0, []byte(text))
}
