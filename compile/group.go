package compile

import (
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/sampling"
	"github.com/ridge-llm/ridge/comm/local"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/pass"
)

// Group is a program over several devices of one process: each runs its part of the graph, all of them in step. It implements Runner.
type Group struct {
	programs []*Program // by stage, then tensor rank
	last     *Program   // of the last stage, whose results are those of the whole
	comms    []*local.Rank
	ranks    []Ranks // of each device
	limits   backend.Limits
	groups   []graph.CacheGroup
	ids      int
	alike    bool      // all devices have all logits
	tensor   int       // devices of a stage
	joints   [][]joint // by cache group; nil: pages of the devices cannot be joined
	flight   flight    // steps that have begun
	experts  *expertCache
}

// Member is a device of a group, with the graph before the passes as that device computes it, and what the passes do for it. The graphs of a group are of one model, and
// differ in the types of activations alone.
type Member struct {
	Device backend.Device
	Graph  *graph.Graph
	Passes pass.Options // but Layout and Rank
}

// CompileGroup makes the program of a layout's devices, all of a kind, which are given by stage, then tensor rank. g is the graph before the passes.
func CompileGroup(g *graph.Graph, o pass.Options, devs []backend.Device, files Tensors, lim backend.Limits) (*Group, error) {
	var all []Member
	for _, d := range devs {
		all = append(all, Member{d, g, o})
	}
	return CompileMembers(o.Layout, all, files, lim)
}

// CompileMembers is CompileGroup for devices that may be of several backends. Where some of those that exchange numbers do not do so by themselves, or are of another
// backend, the host moves what they exchange.
func CompileMembers(l pass.Layout, members []Member, files Tensors, lim backend.Limits) (*Group, error) {
	if l.Data != max(l.Sources(), 1) || len(members) != l.Devices() {
		return nil, fmt.Errorf("compile: %d devices for the layout %s; one replica, or all that share experts, on as many devices as they take can run", len(members), l)
	}
	g := members[0].Graph
	groups, err := CacheGroups(g, lim)
	if err != nil {
		return nil, err
	}
	x := &Group{groups: groups, ids: tokenIDs(g), limits: lim, alike: len(members) == l.Tensor}
	ranks := make([]Ranks, len(members))
	for _, g := range l.Groups() {
		peers := local.New(len(g.Devices))
		x.comms = append(x.comms, peers[0])
		mixed := !byThemselves(members, g.Devices)
		for i, device := range g.Devices {
			ranks[device].Set(g.Exchange, peers[i])
			ranks[device].hosted[g.Exchange] = mixed
		}
	}
	x.ranks = ranks
	if err := x.join(members); err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	for i, m := range members {
		o := m.Passes
		o.Layout, o.Rank = l, l.Rank(i)
		part, err := pass.Run(m.Graph, pass.All, o)
		if err == nil {
			var p *Program
			if p, err = compileRank(part, m.Device, files, lim, groups, ranks[i]); err == nil {
				x.programs = append(x.programs, p)
				continue
			}
		}
		x.Close()
		return nil, fmt.Errorf("compile: %s: %w", o.Rank, err)
	}
	if x.experts, err = newExpertCache(x.programs); err != nil {
		x.Close()
		return nil, err
	}
	x.last = x.programs[l.Number(pass.Rank{Stage: l.Pipeline - 1})]
	x.tensor = l.Tensor
	alike := !slices.ContainsFunc(members, func(m Member) bool { return reflect.TypeOf(m.Device) != reflect.TypeOf(members[0].Device) })
	x.newFlight(l, members, alike)
	if alike && len(members) == l.Tensor*l.Pipeline { // else pages of some are of no use to others
		x.joints = x.joinPages()
	}
	return x, nil
}

// byThemselves reports whether some members exchange numbers by themselves, all in one way.
func byThemselves(members []Member, which []int) bool {
	first := reflect.TypeOf(members[which[0]].Device)
	for _, i := range which {
		if _, ok := members[i].Device.(backend.Exchanger); !ok || reflect.TypeOf(members[i].Device) != first {
			return false
		}
	}
	return true
}

// join makes every device one of its groups, all at the same time.
func (x *Group) join(members []Member) error {
	errs := make([]error, len(members))
	var joining sync.WaitGroup
	for i, m := range members {
		joining.Go(func() {
			if errs[i] = x.ranks[i].join(m.Device); errs[i] != nil {
				x.abort(errs[i])
			}
		})
	}
	joining.Wait()
	err := errors.Join(errs...)
	if err != nil {
		err = errors.Join(err, leave(x.ranks))
	}
	return err
}

// abort ends what devices wait for.
func (x *Group) abort(err error) {
	for _, c := range x.comms {
		c.Abort(err)
	}
	for _, p := range x.programs {
		p.Abort(err)
	}
}

// each has every device do something, all at the same time, when steps that have begun are done.
func (x *Group) each(do func(p *Program) error) error {
	if err := x.Abandon(); err != nil {
		return err
	}
	err := x.sideBySide(x.programs, do)
	if err != nil {
		x.reset()
	}
	return err
}

// sideBySide has some devices do something at the same time. One that fails ends what all others wait for; the first error is the result.
func (x *Group) sideBySide(programs []*Program, do func(p *Program) error) (first error) {
	errs := make(chan error, len(programs))
	for _, p := range programs {
		go func() {
			err := guarded(p, do)
			if err != nil {
				x.abort(err)
			}
			errs <- err
		}()
	}
	for range programs {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// reset makes the groups of devices whole again after an abort. None is at anything.
func (x *Group) reset() {
	for _, c := range x.comms {
		c.Reset()
	}
}

// guarded is do, with a panic as an error: it would end the process here, where no caller can take it in.
func guarded(p *Program, do func(p *Program) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("compile: device %s: panic: %v\n%s", p.dev.Info().Name, r, debug.Stack())
		}
	}()
	return do(p)
}

// Run implements Runner.
func (x *Group) Run(b *backend.Batch) error {
	if err := x.experts.turn(); err != nil {
		return err
	}
	return x.each(func(p *Program) error { return p.Run(b) })
}

// RunBody implements Runner.
func (x *Group) RunBody(b *backend.Batch) error {
	if err := x.experts.turn(); err != nil {
		return err
	}
	return x.each(func(p *Program) error { return p.RunBody(b) })
}

// Limits implements Runner.
func (x *Group) Limits() backend.Limits { return x.limits }

// Groups implements Runner. The caches are those of the whole graph, of which each device has a part.
func (x *Group) Groups() []graph.CacheGroup { return x.groups }

// PageBytes implements Runner: what one page takes on all devices together that have a part of it.
func (x *Group) PageBytes(group int) (n int64) {
	for _, p := range x.programs {
		n += p.PageBytes(group)
	}
	return n / int64(max(x.limits.Ranks, 1))
}

// Memory implements Runner: the sum over devices.
func (x *Group) Memory() (m Memory) {
	for _, p := range x.programs {
		one := p.Memory()
		m.Weights, m.Caches, m.Arena, m.Swap = m.Weights+one.Weights, m.Caches+one.Caches, m.Arena+one.Arena, m.Swap+one.Swap
	}
	return m
}

// Memories is what each device has of Memory.
func (x *Group) Memories() (all []Memory) {
	for _, p := range x.programs {
		all = append(all, p.Memory())
	}
	return all
}

// ExpertCaching is what the experts' cache has done; nothing where the layout has none.
func (x *Group) ExpertCaching() ExpertCaching { return x.experts.caching() }

// CopyPage implements Runner.
func (x *Group) CopyPage(group int, from, to int32) error {
	return x.all(func(p *Program) error { return p.CopyPage(group, from, to) })
}

// StatePages implements Runner: what suffices on each device.
func (x *Group) StatePages(state, into int) (n int) {
	for _, p := range x.programs {
		if p.PageBytes(state) == 0 {
			continue // a stage without recurrent layers
		}
		each := p.StatePages(state, into)
		if each == 0 {
			return 0
		}
		n = max(n, each)
	}
	return n
}

// StoreState implements Runner.
func (x *Group) StoreState(state int, from int32, into int, pages []int32) error {
	pages = x.kept(pages)
	return x.all(func(p *Program) error { return p.StoreState(state, from, into, pages) })
}

// FetchState implements Runner.
func (x *Group) FetchState(state int, to int32, into int, pages []int32) error {
	pages = x.kept(pages)
	return x.all(func(p *Program) error { return p.FetchState(state, to, into, pages) })
}

// SwapOut implements Runner.
func (x *Group) SwapOut(group int, from, to []int32) error {
	from, to = x.kept(from), x.kept(to)
	return x.all(func(p *Program) error { return p.SwapOut(group, from, to) })
}

// SwapIn implements Runner.
func (x *Group) SwapIn(group int, from, to []int32) error {
	from, to = x.kept(from), x.kept(to)
	return x.all(func(p *Program) error { return p.SwapIn(group, from, to) })
}

// Logits implements Runner.
func (x *Group) Logits(dst []float32, from, n int) error { return x.last.Logits(dst, from, n) }

// Rows implements Runner.
func (x *Group) Rows(buffer []float32, n int) ([]float32, error) { return x.last.Rows(buffer, n) }

// HostReads implements Runner.
func (x *Group) HostReads() bool { return x.last.HostReads() }

// Hidden implements Runner.
func (x *Group) Hidden(dst []float32, from, n int) error { return x.last.Hidden(dst, from, n) }

// HiddenWidth implements Runner.
func (x *Group) HiddenWidth() int { return x.last.HiddenWidth() }

// HiddenOfAll implements Runner.
func (x *Group) HiddenOfAll() bool { return x.last.HiddenOfAll() }

// Encoder implements Runner.
func (x *Group) Encoder() bool { return x.last.Encoder() }

// Vocab implements Runner.
func (x *Group) Vocab() int { return x.last.Vocab() }

// Ids implements Runner.
func (x *Group) Ids() int { return x.ids }

// CanSample implements Runner.
func (x *Group) CanSample() bool {
	return !slices.ContainsFunc(x.samplers(), func(p *Program) bool { return !p.CanSample() })
}

// RunsAhead implements Runner: where all devices have the same logits, of which each samples the same tokens. Else one of them samples, and the others are given the tokens.
func (x *Group) RunsAhead() bool { return x.alike }

// samplers are the devices that sample.
func (x *Group) samplers() []*Program {
	if x.alike {
		return x.programs
	}
	return []*Program{x.last}
}

// Sample implements Runner.
func (x *Group) Sample(samples []sampling.Sample) error {
	do := func(p *Program) error { return p.Sample(samples) }
	switch f := &x.flight; {
	case x.alike:
		return x.each(do)
	case len(f.begun) > 0: // the last of them is what is sampled from
		f.begun = append(f.begun, ordered{do: func(p *Program) error {
			if p != x.last {
				return nil
			}
			return do(p)
		}})
		return nil
	}
	return do(x.last)
}

// SampleResults implements Runner: those of one device, when all that sample have them.
func (x *Group) SampleResults(dst []sampling.Result) (took time.Duration, err error) {
	for _, p := range x.samplers() {
		each := dst
		if p != x.last {
			each = nil
		}
		worked, failed := p.SampleResults(each)
		took, err = max(took, worked), errors.Join(err, failed)
	}
	return took, err
}

// ThreadLender implements Runner.
func (x *Group) ThreadLender() (backend.ThreadLender, int) { return x.last.ThreadLender() }

// Warm implements Runner.
func (x *Group) Warm() {
	for _, p := range x.programs {
		p.Warm()
	}
}

// PrefaultAhead is Program.PrefaultAhead on all devices.
func (x *Group) PrefaultAhead(most int64) {
	for _, p := range x.programs {
		p.PrefaultAhead(most / int64(len(x.programs)))
	}
}

// Close implements Runner. The devices stay.
func (x *Group) Close() {
	_ = x.Abandon()    // nobody wants its results
	_ = leave(x.ranks) // what is left goes with the devices
	for _, p := range x.programs {
		p.Close()
	}
}

// String is the programs of all devices as text.
func (x *Group) String() string {
	var s strings.Builder
	for i, p := range x.programs {
		fmt.Fprintf(&s, "device %d\n%s", i, p)
	}
	return s.String()
}
