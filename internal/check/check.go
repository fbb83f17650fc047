// Package check compares a model's logits and greedy tokens with what upstream computed for it.
package check

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/comm/world"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/compile/ranks"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
)

// Options says how to compute.
type Options struct {
	Devices []backend.Device // one, or as many as the Layout takes, by stage and then tensor rank
	Layout  pass.Layout      // over the devices
	Last    int              // the second of two Devices, which may be of another backend, has so many last layers; 0: the Layout says what they have
	Experts int              // with Last, of how many first layers of the model the experts are on the first device, wherever the layers are
	Slots   int              // with Experts, how many experts of each of these layers the second device has in slots of a cache
	Cache   graph.Type       // of keys and values
	Loads   pass.ExpertLoads // by which experts are placed on the devices of Layout
	Chunk   int              // tokens of a prompt computed in one step; 0: all of them
	// Meet has the devices of the Layout meet, where they are of a process each: Devices is this one's then. It is given what must be the same on all. nil: all are of this process.
	Meet func(facts []world.Fact, l pass.Layout) (*world.World, error)

	adapters pass.Adapters // that are resident at once
}

func (o *Options) passes(dev backend.Device, exact bool) pass.Options {
	return pass.Options{Layout: o.Layout, Loads: o.Loads, Q8: dev.Info().Q8 && !exact, Kernels: compile.Kernels{Device: dev}, Adapters: o.adapters}
}

// program compiles a graph for the devices. With exact, inputs of quantised matrices stay in floats.
func (o *Options) program(g *graph.Graph, b *modeldir.Dir, lim backend.Limits, exact bool) (compile.Runner, error) {
	passes := o.passes(o.Devices[0], exact)
	switch {
	case o.Meet != nil:
		w, err := o.meet(b)
		if err != nil {
			return nil, err
		}
		lead, err := ranks.Start(g, passes, o.Devices[0], b, lim, w)
		if err != nil {
			w.Fail(err) // the other ranks wait
			return nil, errors.Join(err, w.Close())
		}
		return lead, nil
	case len(o.Devices) > 1:
		var members []compile.Member
		for _, d := range o.Devices {
			members = append(members, compile.Member{Device: d, Graph: g, Passes: o.passes(d, exact)})
		}
		return compile.CompileMembers(o.Layout, members, b, lim)
	}
	g, err := pass.Run(g, pass.All, passes)
	if err != nil {
		return nil, err
	}
	return compile.Compile(g, o.Devices[0], b, lim)
}

// backend is the names of the devices, each once.
func (o *Options) backend() string {
	var names []string
	for _, d := range o.Devices {
		if name := d.Info().Name; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, " and ")
}

func (o *Options) meet(b *modeldir.Dir) (*world.World, error) {
	print, err := b.Fingerprint()
	if err != nil {
		return nil, err
	}
	info := o.Devices[0].Info()
	return o.Meet([]world.Fact{
		{Name: "model", Value: b.Name + " " + print[:16]},
		{Name: "layout", Value: o.Layout.String()},
		{Name: "placement of experts", Value: o.Loads.String()},
		{Name: "arithmetic of devices", Value: fmt.Sprintf("%s Q8=%t", strings.SplitN(info.Name, ":", 2)[0], info.Q8)},
	}, o.Layout)
}

// Work computes another rank's part of a comparison, of the model at path, until rank 0 is done.
func Work(path string, o Options) error {
	b, err := modeldir.Open(path)
	if err != nil {
		return err
	}
	defer b.Close()
	g, err := o.graph(b)
	if err != nil {
		return err
	}
	w, err := o.meet(b)
	if err != nil {
		return err
	}
	err = ranks.Work(g, o.passes(o.Devices[0], quantised(b.Model, g)), o.Devices[0], b, w, func() {})
	return errors.Join(err, w.Close())
}

// graph is the model's graph, and fits the layout to it.
func (o *Options) graph(b *modeldir.Dir) (*graph.Graph, error) {
	g, err := b.Model.Graph(graphOptions(*o))
	if err == nil && o.Last > 0 {
		o.Layout = pass.WithoutExperts(g.Layers(), min(o.Last, g.Layers()), o.Experts)
		o.Layout.ExpertSlots = o.Slots
		if err = o.Layout.Check(g); err != nil {
			err = fmt.Errorf("check: %w", err)
		}
	}
	if err == nil && o.Layout.Sequence > 1 {
		if o.Layout, err = compile.FitTo(o.Devices[0], o.Layout, g); err != nil {
			err = fmt.Errorf("check: %w", err)
		}
	}
	return g, err
}

// Tolerance is the largest relative logits error that passes: float32 against float32 in another order of sums.
const Tolerance = 1e-4

// QuantisedTolerance is that of a Hugging Face checkpoint with quantised weights, which upstream may decode to 16 bits.
const QuantisedTolerance = 1e-3

// quantised reports whether a Hugging Face checkpoint has matrices in block formats: what upstream computed has floats for inputs.
func quantised(m *model.Model, g *graph.Graph) bool {
	return m.HF && slices.ContainsFunc(g.Weights, func(w *graph.Weight) bool { return w.Format.Block() > 1 })
}

// Result is a comparison. The relative error is the largest difference of a logit over the largest logit of its row.
type Result struct {
	File       string  `json:"golden"`
	Backend    string  `json:"backend"`
	Rows       int     `json:"rows"`
	WorstError float64 `json:"worst_relative_error"`
	WorstCase  int     `json:"worst_case"`
	WorstRow   int     `json:"worst_row"`
	WorstToken int     `json:"worst_token"`
	Got        float32 `json:"got"`
	Want       float32 `json:"want"`
	Greedy     int     `json:"greedy_tokens"`
	GreedySame int     `json:"greedy_tokens_same"` // before the first that differs
	Tolerance  float64 `json:"tolerance"`
	OK         bool    `json:"ok"`

	errors []float64 // of each row
}

// Model compares the model at path with the golden file in dir: the model's own directory, or of what it was converted from.
func Model(path, dir string, o Options) (*Result, error) {
	g, err := readGolden(dir)
	if err != nil {
		return nil, err
	}
	b, err := modeldir.Open(path)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	return compareModel(b, g, o)
}

// compareModel computes every golden case with the bundle's model.
func compareModel(b *modeldir.Dir, g *golden, o Options) (*Result, error) {
	gr, err := o.graph(b)
	if err != nil {
		return nil, err
	}
	g.whole = choosesKeys(gr)
	lim := limits(g)
	lim.Divide(o.Layout.PageRanks())
	lim.Pages = lim.Seqs * lim.SeqPages
	lim.KeepAll(gr)
	if n := o.Layout.Data; o.Layout.OwnSequences() {
		each := (lim.Seqs + n - 1) / n
		lim.Pages = each * lim.SeqPages
		lim.KeepAll(gr)
		for i := range lim.Groups {
			if lim.Groups[i].Recurrent {
				lim.Groups[i].Pages = each
			}
		}
		lim.Times(n)
	}
	exact := quantised(b.Model, gr)
	prog, err := o.program(gr, b, lim, exact)
	if err != nil {
		return nil, err
	}
	defer prog.Close()
	return compareProgram(prog, g, o, exact, nil)
}

// compareProgram computes every golden case; slots are the adapters of each, nil: there are none.
func compareProgram(prog compile.Runner, g *golden, o Options, exact bool, slots []int) (*Result, error) {
	r := &runner{prog: prog, past: make([]int, len(g.cases)), slots: slots, whole: g.whole}
	res := &Result{File: g.file, Backend: o.backend(), Tolerance: Tolerance}
	if exact {
		res.Tolerance = QuantisedTolerance
	}
	if err := res.prompts(r, g, o.Chunk); err != nil {
		return nil, err
	}
	if err := res.greedy(r, g); err != nil {
		return nil, err
	}
	res.OK = res.WorstError <= res.Tolerance && res.GreedySame == res.Greedy
	return res, nil
}

// limits makes room for all cases at once, so that the prompts are computed as one batch.
func limits(g *golden) backend.Limits {
	lim := backend.Limits{Seqs: len(g.cases), PageSize: 16}
	longest := 0
	for _, c := range g.cases {
		lim.Tokens += len(c.prompt)
		longest = max(longest, len(c.prompt)+len(c.greedy))
	}
	lim.Tokens = max(lim.Tokens, longest)
	lim.Logits = lim.Tokens
	lim.SeqPages = longest/lim.PageSize + 1
	lim.Pages = lim.Seqs * lim.SeqPages
	return lim
}

// prompts computes all prompts side by side, in chunks if asked to, and compares their logits.
func (res *Result) prompts(r *runner, g *golden, chunk int) error {
	vocab := r.prog.Vocab()
	got := make([][]float32, len(g.cases))
	for done := false; !done; {
		tokens, order := map[int][]int32{}, []int{}
		for i, c := range g.cases {
			rest := c.prompt[r.past[i]:]
			if chunk > 0 && len(rest) > chunk {
				rest = rest[:chunk]
			}
			if len(rest) > 0 {
				tokens[i], order = rest, append(order, i)
			}
		}
		if done = len(order) == 0; done {
			break
		}
		rows, err := r.forward(tokens, order, false)
		if err != nil {
			return err
		}
		for _, i := range order {
			n := len(tokens[i]) * vocab
			got[i] = append(got[i], rows[:n]...)
			rows = rows[n:]
		}
	}
	for i, c := range g.cases {
		if len(c.logits)%vocab != 0 || len(c.logits) > len(got[i]) {
			return fmt.Errorf("check: %s: case %d has %d logits; the model makes rows of %d", g.file, i, len(c.logits), vocab)
		}
		res.compare(i, got[i][len(got[i])-len(c.logits):], c.logits, vocab)
		r.next = append(r.next, argmax(got[i][len(got[i])-vocab:]))
	}
	return nil
}

// compare notes the worst error of a case.
func (res *Result) compare(index int, got, want []float32, vocab int) {
	for row := 0; row*vocab < len(want); row++ {
		res.Rows++
		g, w := got[row*vocab:(row+1)*vocab], want[row*vocab:(row+1)*vocab]
		var top, worst float64
		for _, x := range w {
			top = max(top, math.Abs(float64(x)))
		}
		for i := range w {
			e := math.Abs(float64(g[i])-float64(w[i])) / top
			worst = max(worst, e)
			if e > res.WorstError || math.IsNaN(e) {
				res.WorstError, res.WorstCase, res.WorstRow, res.WorstToken, res.Got, res.Want = e, index, row, i, g[i], w[i]
				if math.IsNaN(e) {
					res.WorstError = math.MaxFloat64
				}
			}
		}
		res.errors = append(res.errors, worst)
	}
}

// greedy continues every case that has a continuation.
func (res *Result) greedy(r *runner, g *golden) error {
	for i, c := range g.cases {
		if len(c.greedy) == 0 {
			continue
		}
		continued := r.greedy
		if r.whole {
			continued = func(s int, last int32, n int) ([]int32, error) { return r.greedyWhole(s, c.prompt, last, n) }
		}
		ids, err := continued(i, r.next[i], len(c.greedy))
		if err != nil {
			return err
		}
		same := 0
		for same < len(ids) && ids[same] == c.greedy[same] {
			same++
		}
		res.Greedy += len(c.greedy)
		res.GreedySame += same
	}
	return nil
}

func graphOptions(o Options) model.Options { return model.Options{Act: graph.F32, Cache: o.Cache} }
