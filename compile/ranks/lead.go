package ranks

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/sampling"
	"github.com/ridge-llm/ridge/comm/world"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/pass"
)

// Lead is the program of all ranks as rank 0 has it. It implements compile.Runner. What fails on any rank ends it, with an error of kind backend.ErrLost.
type Lead struct {
	*compile.Program // of rank 0's part
	world            *world.World
	groups           []graph.CacheGroup
	pages            [][]int64         // bytes of a page, by rank and cache group
	slots            [][]*graph.Weight // that adapters fill, by rank; rank 0's are the program's
	memory           compile.Memory
	limits           backend.Limits
	message          []byte // used again
	stages           int
	ahead            bool      // all ranks sample, each the same
	begun            []ordered // what the other ranks were told and rank 0 has not done, in order
}

var _ compile.Pipelined = (*Lead)(nil)

// Start has all ranks compile their parts of g, the graph before the passes, and returns when all have. The Lead owns the world.
func Start(g *graph.Graph, o pass.Options, dev backend.Device, files compile.Tensors, lim backend.Limits, w *world.World) (*Lead, error) {
	x := &Lead{world: w, limits: lim, stages: o.Layout.Pipeline, ahead: o.Layout.Tensor == w.Size(), slots: make([][]*graph.Weight, w.Size()), pages: make([][]int64, w.Size())}
	data, err := json.Marshal(begin{lim})
	if err == nil {
		err = w.Broadcast(data)
	}
	if err != nil {
		return nil, err
	}
	for rank := 1; rank < w.Size(); rank++ {
		o.Rank = Place(o.Layout, rank)
		part, err := pass.Run(g, pass.All, o)
		if err != nil {
			return nil, err
		}
		for _, weight := range part.Weights {
			if weight.Slots != nil {
				x.slots[rank] = append(x.slots[rank], weight)
			}
		}
	}
	if x.Program, err = compileRank(g, o, dev, files, lim, w); err != nil {
		return nil, err
	}
	go abortWith(x.Program, w)
	if x.groups, err = compile.CacheGroups(g, lim); err == nil {
		err = x.others()
	}
	if err != nil {
		x.Program.Close()
		return nil, err
	}
	return x, nil
}

// others hears what the other ranks' parts take.
func (x *Lead) others() error {
	x.memory = x.Program.Memory()
	for group := range x.groups {
		x.pages[0] = append(x.pages[0], x.Program.PageBytes(group))
	}
	x.ahead = x.ahead && x.Program.CanSample()
	for rank := 1; rank < x.world.Size(); rank++ {
		data, err := x.world.ReceiveFrom(rank)
		if err != nil {
			return err
		}
		var b begun
		if err := json.Unmarshal(data, &b); err != nil {
			return fmt.Errorf("ranks: the first message of rank %d: %w", rank, err)
		}
		if b.Problem != "" {
			return fmt.Errorf("ranks: rank %d: %s", rank, b.Problem)
		}
		if len(b.Pages) != len(x.groups) {
			return fmt.Errorf("ranks: rank %d has %d cache groups and rank 0 %d", rank, len(b.Pages), len(x.groups))
		}
		x.ahead = x.ahead && b.Samples
		x.pages[rank] = b.Pages
		x.memory.Weights, x.memory.Caches, x.memory.Arena, x.memory.Swap = x.memory.Weights+b.Memory.Weights, x.memory.Caches+b.Memory.Caches, x.memory.Arena+b.Memory.Arena, x.memory.Swap+b.Memory.Swap
	}
	return nil
}

// lostError is why the ranks can do nothing more.
type lostError struct{ reason error }

func (e *lostError) Error() string   { return "ranks: " + e.reason.Error() }
func (e *lostError) Unwrap() []error { return []error{e.reason, backend.ErrLost} }

// together has all ranks do what x.message says, this one by do. What fails here leaves the others waiting: the group is over then.
func (x *Lead) together(do func() error) error {
	if err := x.world.Broadcast(x.message); err != nil {
		return &lostError{err}
	}
	if len(x.begun) > 0 { // behind steps that rank 0 has still to compute
		x.begun = append(x.begun, ordered{do: do})
		return nil
	}
	return x.own(do)
}

// own does rank 0's part of something.
func (x *Lead) own(do func() error) error {
	if err := do(); err != nil {
		x.world.Fail(fmt.Errorf("rank 0: %w", err))
		return &lostError{x.world.Err()}
	}
	return nil
}

// kept is a list of pages that the caller uses again, for what is done later.
func (x *Lead) kept(pages []int32) []int32 {
	if len(x.begun) == 0 {
		return pages
	}
	return slices.Clone(pages)
}

// say begins a message.
func (x *Lead) say(what byte, numbers ...int) {
	x.message = append(x.message[:0], what)
	for _, n := range numbers {
		x.message = binary.LittleEndian.AppendUint32(x.message, uint32(n))
	}
}

// Run implements compile.Runner.
func (x *Lead) Run(b *backend.Batch) error { return x.whole(b, false) }

// RunBody implements compile.Runner.
func (x *Lead) RunBody(b *backend.Batch) error { return x.whole(b, true) }

// whole has all ranks compute a step.
func (x *Lead) whole(b *backend.Batch, body bool) error {
	if err := x.Abandon(); err != nil {
		return err
	}
	if err := x.Begin(b, body); err != nil {
		return err
	}
	return x.End()
}

// CopyPage implements compile.Runner.
func (x *Lead) CopyPage(group int, from, to int32) error {
	x.say(copyPage, group, int(from), int(to))
	return x.together(func() error { return x.Program.CopyPage(group, from, to) })
}

// StatePages implements compile.Runner: what suffices on each rank.
func (x *Lead) StatePages(state, into int) (n int) {
	for _, pages := range x.pages {
		if pages[state] == 0 {
			continue // a stage without recurrent layers
		}
		each := compile.StatePages(x.Limits(), pages[state], pages[into])
		if each == 0 {
			return 0
		}
		n = max(n, each)
	}
	return n
}

// StoreState implements compile.Runner.
func (x *Lead) StoreState(state int, from int32, into int, pages []int32) error {
	x.say(storeState, state, int(from), into)
	x.message = appendInts(x.message, pages)
	pages = x.kept(pages)
	return x.together(func() error {
		return x.state(state, func() error { return x.Program.StoreState(state, from, into, pages) })
	})
}

// FetchState implements compile.Runner.
func (x *Lead) FetchState(state int, to int32, into int, pages []int32) error {
	x.say(fetchState, state, int(to), into)
	x.message = appendInts(x.message, pages)
	pages = x.kept(pages)
	return x.together(func() error {
		return x.state(state, func() error { return x.Program.FetchState(state, to, into, pages) })
	})
}

// state does something with a state, if rank 0's stage has any of it.
func (x *Lead) state(state int, do func() error) error {
	if x.pages[0][state] == 0 {
		return nil
	}
	return do()
}

// SwapOut implements compile.Runner.
func (x *Lead) SwapOut(group int, from, to []int32) error {
	x.say(swapOut, group)
	x.message = appendInts(x.message, from, to)
	from, to = x.kept(from), x.kept(to)
	return x.together(func() error { return x.Program.SwapOut(group, from, to) })
}

// SwapIn implements compile.Runner.
func (x *Lead) SwapIn(group int, from, to []int32) error {
	x.say(swapIn, group)
	x.message = appendInts(x.message, from, to)
	from, to = x.kept(from), x.kept(to)
	return x.together(func() error { return x.Program.SwapIn(group, from, to) })
}

// SetAdapter implements compile.Runner. It returns when the slot is filled on all ranks.
func (x *Lead) SetAdapter(slot int, of func(w *graph.Weight) *graph.LowRank, set func(error)) error {
	for rank := 1; rank < x.world.Size(); rank++ {
		x.say(setAdapter, slot)
		for _, w := range x.slots[rank] {
			x.message = appendLowRank(x.message, of(w))
		}
		if err := x.world.Send(rank, x.message); err != nil {
			return &lostError{err}
		}
	}
	filled := make(chan error, 1)
	err := x.Program.SetAdapter(slot, of, func(err error) { filled <- err })
	if err == nil {
		err = <-filled
	}
	for rank := 1; rank < x.world.Size(); rank++ {
		text, lost := x.world.ReceiveFrom(rank)
		if lost != nil {
			return &lostError{lost}
		}
		if len(text) > 0 {
			err = errors.Join(err, fmt.Errorf("ranks: rank %d: %s", rank, text))
		}
	}
	if err == nil && set != nil {
		set(nil)
	}
	return err
}

// Slots implements compile.Runner: of all ranks.
func (x *Lead) Slots() []*graph.Weight {
	all := x.Program.Slots()
	for _, slots := range x.slots[1:] {
		all = append(all, slots...)
	}
	return all
}

// Limits implements compile.Runner: those of the engine's batches.
func (x *Lead) Limits() backend.Limits { return x.limits }

// Groups implements compile.Runner: the caches of the whole graph.
func (x *Lead) Groups() []graph.CacheGroup { return x.groups }

// PageBytes implements compile.Runner: on all ranks together that have a part of a page.
func (x *Lead) PageBytes(group int) (n int64) {
	for _, pages := range x.pages {
		n += pages[group]
	}
	return n / int64(max(x.limits.Ranks, 1))
}

// Memory implements compile.Runner: on all ranks together.
func (x *Lead) Memory() compile.Memory { return x.memory }

// Ids implements compile.Runner. Rank 0's stage may have no table of tokens.
func (x *Lead) Ids() int { return x.AllIds() }

// RunsAhead implements compile.Runner: where all ranks have all logits, each samples the same tokens. Else they are given those that rank 0 samples.
func (x *Lead) RunsAhead() bool { return x.ahead }

// Sample implements compile.Runner: rank 0 has all logits.
func (x *Lead) Sample(samples []sampling.Sample) error {
	do := func() error { return x.Program.Sample(samples) }
	if x.ahead {
		x.say(sample)
		x.message = appendSamples(x.message, samples)
		return x.together(do)
	}
	if len(x.begun) > 0 { // the last of them is what is sampled from
		x.begun = append(x.begun, ordered{do: do})
		return nil
	}
	return x.own(do)
}

// PrefaultAhead is Program.PrefaultAhead on all ranks, and with it Warm.
func (x *Lead) PrefaultAhead(most int64) {
	x.say(warm, int(most>>20)/x.world.Size())
	_ = x.world.Broadcast(x.message) // the next step says what is wrong
	x.Program.PrefaultAhead(most / int64(x.world.Size()))
}

// Close implements compile.Runner: it ends the group.
func (x *Lead) Close() {
	_ = x.world.Close() // what memory and connections are left goes with the process
	x.Program.Close()
}
