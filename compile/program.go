// Package compile turns a graph and a device into a Program: weights made resident, a kernel chosen for every node, and
// memory laid out once for the largest step, so that running a step is a loop over launches and allocates nothing.
package compile

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/comm"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// Tensors gives the tensors of a model file by the file's names. Release says that a device has its own copy of some bytes
// of one; bytes that are of no file are left alone.
type Tensors interface {
	recipe.Tensors
	Release(part []byte)
}

// Program is a graph ready to run on a device.
type Program struct {
	Graph       *graph.Graph
	limits      backend.Limits
	dev         backend.Device
	ranks       Ranks     // of a program that is one device's part
	seq         *sequence // nil: all rows of steps are here
	ring        *ringSpace
	routes      map[*graph.Node]*routes // of rows to experts, by Dispatch
	moved       moved
	launches    []backend.Launch
	whole       steps    // the launches
	body        steps    // those up to the hidden states; launches of its own, since devices tell programs apart by theirs
	kernels     []string // of each launch
	where       map[*graph.Value]backend.Buffer
	groups      []graph.CacheGroup
	pages       map[*graph.Cache]backend.Buffer
	owned       []backend.Buffer // arena, caches and swap space
	swap        swapSpace
	weights     map[*graph.Weight]placed
	adapters    map[*graph.Weight]backend.Weight // that adapters fill
	prefaulting prefaulting
	memory      Memory
	ids         int // token ids of the whole model, of a part of it; 0: the graph says
}

// Memory is what a program takes on its device, in bytes.
type Memory struct {
	Weights int64 // beside the model file itself, which a CPU uses where it is mapped
	Caches  int64
	Arena   int64 // activations and the kernels' scratch
	Swap    int64 // in host memory, of pages swapped out
}

// Compile makes a Program. The limits' Pages must be set: the caches are allocated here.
func Compile(g *graph.Graph, dev backend.Device, files Tensors, lim backend.Limits) (*Program, error) {
	groups, err := CacheGroups(g, lim)
	if err != nil {
		return nil, err
	}
	return compileRank(g, dev, files, lim, groups, Ranks{})
}

// CompilePart makes a program of a part of a model, which receives values from others and sends them, by its Recv and Send nodes, through
// peers.
func CompilePart(g *graph.Graph, dev backend.Device, files Tensors, lim backend.Limits, peers comm.Communicator) (*Program, error) {
	groups, err := CacheGroups(g, lim)
	if err != nil {
		return nil, err
	}
	return compileRank(g, dev, files, lim, groups, Ranks{Pipeline: peers})
}

// CompileRank makes the program of one of several processes: of its part of a graph, which is whole before the passes.
func CompileRank(part, whole *graph.Graph, dev backend.Device, files Tensors, lim backend.Limits, ranks Ranks) (*Program, error) {
	groups, err := CacheGroups(whole, lim)
	if err != nil {
		return nil, err
	}
	if err := ranks.join(dev); err != nil {
		return nil, err
	}
	p, err := compileRank(part, dev, files, lim, groups, ranks)
	if err == nil {
		p.ids = tokenIDs(whole)
	}
	return p, err
}

// compileRank is Compile for one of several devices. groups are those of the whole model; the graph may have caches of some of them.
func compileRank(g *graph.Graph, dev backend.Device, files Tensors, lim backend.Limits, groups []graph.CacheGroup, ranks Ranks) (*Program, error) {
	whole := lim
	if g.Sequence.Own {
		lim = lim.OfRank()
	}
	p := &Program{Graph: g, limits: lim, dev: dev, groups: groupsOf(g, groups), ranks: ranks, where: map[*graph.Value]backend.Buffer{}}
	if s := g.Sequence; s.Ranks > 1 {
		var err error
		if p.limits.PageSize, err = s.PageSize(lim.PageSize); err != nil {
			return nil, fmt.Errorf("compile: %w", err)
		}
		if p.seq, err = newSequence(s, ranks.Sequence, p.limits.PageSize); err != nil {
			return nil, err
		}
		if s.Own && whole.Ranks != s.Ranks {
			return nil, fmt.Errorf("compile: the pages of %d devices for a graph of %d that have sequences of their own", whole.Ranks, s.Ranks)
		}
		p.seq.limits, p.seq.all = p.limits, whole
		p.ranks.hostRows(g, dev)
	}
	if err := p.build(files); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (p *Program) build(files Tensors) error {
	plain := p.Graph.Plain
	whole, err := p.unfuse(p.Graph)
	if err != nil {
		return err
	}
	p.Graph = whole
	weights, err := p.place(files)
	if err != nil {
		return err
	}
	if err := p.allocCaches(); err != nil {
		return err
	}
	if err := p.allocSwap(); err != nil {
		return err
	}
	p.weights = weights
	for _, w := range weights {
		p.memory.Weights += w.Bytes()
	}
	p.adapters = adapterWeights(weights)
	return p.layOut(plain, files)
}

// layOut makes the program's launches, and those of steps without adapters if there is a graph of them.
func (p *Program) layOut(plain *graph.Graph, files Tensors) error {
	weights := p.weights
	with, err := p.plan(p.Graph, weights)
	if err != nil {
		return err
	}
	all, plans := layoutOf(with, nil, p.limits), []*plan{with}
	var without *plan
	if plain != nil {
		if without, err = p.planPlain(plain, weights); err != nil {
			return err
		}
	}
	if without != nil {
		all = layoutOf(without, all, p.limits)
		plans = append(plans, without)
	}
	arena, err := p.alloc(all.size, "activations")
	if err != nil {
		return err
	}
	p.memory.Arena = all.size
	for v, at := range all.values {
		p.where[v] = arena.Slice(at.off, at.size)
	}
	for _, l := range plans {
		if err := p.bindAll(l, arena, files); err != nil {
			return err
		}
	}
	p.launches, p.kernels = with.launches, with.names
	return p.cut(with, without)
}

// refusal is the error that the device cannot compute a node.
func (p *Program) refusal(n *graph.Node) error {
	why := ""
	if r, ok := p.dev.(backend.Refuser); ok {
		why = ": " + r.Refusal(n)
	}
	return fmt.Errorf("compile: device %s has no kernel for node %s%s", p.dev.Info().Name, n, why)
}

// unfuse is a graph whose fused ops that the device has no kernel for, or the host has to compute a part of, are taken apart, until none is left; and with them the norms that are
// deferred to such a one.
func (p *Program) unfuse(g *graph.Graph) (*graph.Graph, error) {
	for {
		lacks := map[*graph.Value]bool{} // a reader that can do without it
		for _, n := range g.Nodes {
			if len(n.In) > 0 && n.In[0].Deferred > 0 && len(p.dev.Kernels(n)) == 0 {
				lacks[n.In[0]] = true
			}
		}
		found := false
		next, err := graph.Rewrite(g, func(r *graph.Rewriter, n *graph.Node) bool {
			has := len(p.dev.Kernels(n)) > 0 && !(reduces(n.Op) && p.ranks.of(n.Op) == nil)
			if !lacks[n.Out[len(n.Out)-1]] && has || !r.Unfuse(n) {
				return false
			}
			found = true
			return true
		})
		if err != nil || !found {
			return next, err
		}
		g = next
	}
}

func (p *Program) buffer(v *graph.Value) backend.Buffer {
	if v.Cache != nil {
		return p.pages[v.Cache]
	}
	return p.where[v]
}

func (p *Program) alloc(n int64, what string) (backend.Buffer, error) {
	b, err := p.dev.Alloc(n, what)
	if err == nil {
		p.owned = append(p.owned, b)
	}
	return b, err
}

// allocCaches gets the pages of every cache.
func (p *Program) allocCaches() error {
	p.pages = map[*graph.Cache]backend.Buffer{}
	for _, c := range p.Graph.Caches {
		n := int64(p.limits.GroupPages(c.Group)) * p.limits.PageBytes(c)
		b, err := p.alloc(n, "cache "+c.Name)
		if err != nil {
			return err
		}
		p.pages[c] = b
		p.memory.Caches += n
	}
	return nil
}

// CopyPage copies a page in every cache of a group, in order with the steps.
func (p *Program) CopyPage(group int, from, to int32) error {
	if !p.holds(group, &from) || !p.holds(group, &to) {
		return nil
	}
	for _, c := range p.groups[group].Caches {
		b, n := p.pages[c], p.limits.PageBytes(c)
		if err := p.dev.Copy(b.Slice(int64(to)*n, n), b.Slice(int64(from)*n, n)); err != nil {
			return fmt.Errorf("compile: copying page %d of cache %s: %w", from, c.Name, err)
		}
	}
	return nil
}

// CacheGroups is the cache groups that limits ask for: the graph's or, where they tell none apart, a single one.
func CacheGroups(g *graph.Graph, lim backend.Limits) ([]graph.CacheGroup, error) {
	groups := g.CacheGroups()
	if len(lim.Groups) == 0 {
		if slices.ContainsFunc(groups, func(c graph.CacheGroup) bool { return c.Recurrent }) {
			return nil, fmt.Errorf("compile: limits without cache groups for graph %s, which has recurrent layers; backend.Paging gives them", g.Name)
		}
		return []graph.CacheGroup{{Caches: g.Caches}}, nil
	}
	if len(lim.Groups) != len(groups) {
		return nil, fmt.Errorf("compile: limits for %d cache groups; the graph has %d", len(lim.Groups), len(groups))
	}
	for i, g := range groups {
		if lim.Groups[i].Recurrent != g.Recurrent {
			return nil, fmt.Errorf("compile: cache group %d: limits and graph differ in whether it is recurrent", i)
		}
		if w := lim.Groups[i].Window; w != 0 && (g.Window == 0 || w < g.Window) {
			return nil, fmt.Errorf("compile: cache group %d is to keep %d rows; the graph needs %d (0: all)", i, w, g.Window)
		}
		groups[i].Window = lim.Groups[i].Window
	}
	return groups, nil
}

// groupsOf is cache groups with the caches that a graph has of them.
func groupsOf(g *graph.Graph, groups []graph.CacheGroup) []graph.CacheGroup {
	own := make([]graph.CacheGroup, len(groups))
	for i := range own {
		own[i].Window, own[i].Recurrent = groups[i].Window, groups[i].Recurrent
	}
	for _, c := range g.Caches {
		to := &own[min(c.Group, len(own)-1)]
		to.Caches = append(to.Caches, c)
	}
	return own
}

// Limits bounds the steps that the program can run.
func (p *Program) Limits() backend.Limits { return p.limits }

// Groups is the cache groups that have a page table each: those of Limits.Groups, or one of all caches.
func (p *Program) Groups() []graph.CacheGroup { return p.groups }

// Memory is what the program takes on its device.
func (p *Program) Memory() Memory { return p.memory }

// Run computes a step. The batch must have passed Check.
func (p *Program) Run(b *backend.Batch) error { return p.run(p.whole.of(b), b) }

// Warm has the device do now what it would do in the first steps, if it puts anything off to them.
func (p *Program) Warm() {
	if w, ok := p.dev.(backend.Warmer); ok {
		w.Warm()
	}
}

// RunTimed is Run, and says how long each node of Graph took; only on devices that can measure.
func (p *Program) RunTimed(b *backend.Batch, took []time.Duration) error {
	m, ok := p.dev.(backend.Measurer)
	if !ok {
		return fmt.Errorf("compile: device %s cannot time its launches", p.dev.Info().Name)
	}
	return m.RunTimed(p.launches, b, took)
}

// Kernel is the name of the kernel chosen for a node of Graph.
func (p *Program) Kernel(node int) string { return p.kernels[node] }

// Logits copies n rows of the step's logits from row from on to dst, as F32; it waits for the step.
func (p *Program) Logits(dst []float32, from, n int) error {
	return p.dev.Read(dst, p.Graph.Output, p.where[p.Graph.Output], from, n)
}

// Rows is the first n rows of the step's logits: where they lie, if the host can read them there, or else copied to buffer.
// They are the caller's to write over, until the next step. It waits for the step.
func (p *Program) Rows(buffer []float32, n int) ([]float32, error) {
	if v, ok := p.dev.(backend.Viewer); ok {
		return v.View(p.Graph.Output, p.where[p.Graph.Output], n)
	}
	buffer = buffer[:n*p.Vocab()]
	return buffer, p.Logits(buffer, 0, n)
}

// HostReads reports whether Rows needs no buffer.
func (p *Program) HostReads() bool {
	_, ok := p.dev.(backend.Viewer)
	return ok
}

// ThreadLender is the device, if it lends its threads out between steps; or else nil.
func (p *Program) ThreadLender() (l backend.ThreadLender, threads int) {
	l, _ = p.dev.(backend.ThreadLender)
	return l, p.dev.Info().Threads
}

// Vocab is the width of a row of logits.
func (p *Program) Vocab() int { return p.Graph.Output.Axis.Len() }

// Close frees the program's memory; the device stays.
func (p *Program) Close() {
	p.prefaulting.close()
	for _, g := range p.ranks.all() {
		_ = g.Close() // what is left goes with the device
	}
	for _, b := range p.owned {
		p.dev.Free(b)
	}
	p.owned = nil
}

// String is the program as text: a launch a line with the kernel chosen.
func (p *Program) String() string {
	var s strings.Builder
	for i, l := range p.launches {
		fmt.Fprintf(&s, "%3d  %-28s %s\n", i, p.kernels[i], l)
	}
	return s.String()
}
