// Package bench measures how fast a model runs on a device, and puts the limit beside every figure: what the same
// machine, measured in the same minute, could do at most.
package throughput

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/sampling"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/compile/earlyexit"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/price"
)

// Test is one row to measure: sequences of depth tokens in the cache each either read Prompt tokens at once or decode
// Decode tokens one by one.
type Test struct {
	Prompt int `json:"prompt,omitempty"`
	Decode int `json:"decode,omitempty"`
	Depth  int `json:"depth"`
	Batch  int `json:"batch"`
	LoRAs  int `json:"loras,omitempty"` // adapters that the sequences have, in turn; 0: none
	// Exits says that tokens may leave the model early (Options.EarlyExit).
	Exits string `json:"early_exit,omitempty"`
}

// Name is the row's name as llama-bench has it: pp512, tg128, and @ d4096 behind when there is a depth; +16 loras with so many adapters.
func (t Test) Name() string {
	name := fmt.Sprintf("pp%d", t.Prompt)
	if t.Decode > 0 {
		name = fmt.Sprintf("tg%d", t.Decode)
	}
	if t.Depth > 0 {
		name += fmt.Sprintf(" @ d%d", t.Depth)
	}
	if t.LoRAs > 0 {
		name += fmt.Sprintf(" +%d loras", t.LoRAs)
	}
	if t.Exits != "" {
		name += " " + t.Exits
	}
	return name
}

// Row is a measured Test: tokens per second over all sequences.
type Row struct {
	Test
	Threads  int     `json:"threads"`
	Median   float64 `json:"tokens_per_second"`
	Low      float64 `json:"lowest"`
	High     float64 `json:"highest"`
	Limit    float64 `json:"limit_tokens_per_second"` // at the roofline
	Fraction float64 `json:"fraction_of_limit"`       // of the median
	Runs     int     `json:"runs"`
	// Predicted is what the price of the test's steps comes to; 0 without a profile of the device.
	Predicted float64 `json:"predicted_tokens_per_second,omitempty"`
	// Layers is how many layers a token went through on average, of all runs; 0: all, as nothing leaves early.
	Layers float64 `json:"layers_per_token,omitempty"`
}

// Runner is a model on a device, ready to be measured.
type Runner struct {
	prog   compile.Runner
	one    *compile.Program  // prog, where one device has all of it
	exits  *earlyexit.Runner // it is prog; nil: no token leaves early
	graph  *graph.Graph      // as one device computes it
	share  int               // devices that share the work
	stages []stage           // of devices of several backends; nil: all are of one
	price  *price.Model      // nil: there is no profile of the device
	peaks  backend.Peaks
	info   backend.Info
	vocab  int
	chunk  int // tokens of a step
	rank   int // of adapters
	filled int // tokens in the cache of sequence 0, on which depths stand
	rnd    *rand.Rand
	batch  backend.Batch
	logits []float32

	samples []sampling.Sample // of a step, on a device that samples
	waits   bool              // a step's tokens have not been waited for yet
}

// stage is a device's part of a model.
type stage struct {
	graph *graph.Graph
	peaks backend.Peaks
}

// Options bounds what will be measured.
type Options struct {
	Cache        graph.Type
	Quantization string           // of matrices in floats on load, as pass.OnLoadFormat has it; "": they stay as they are
	Tokens       int              // the longest sequence
	Batch        int              // the most sequences
	Chunk        int              // the most tokens of a step
	Layout       pass.Layout      // over several devices
	Loads        pass.ExpertLoads // by which experts are placed on the devices of Layout
	Last         int              // the second of two devices, which may be of another backend, has so many last layers; 0: the Layout says what they have
	Experts      int              // with Last, of how many first layers of the model the experts are on the first device, wherever the layers are
	Slots        int              // with Experts, how many experts of each of these layers the second device has in slots of a cache
	LoRAs        pass.Adapters
	// EarlyExit has tokens leave the model early; nil: none does. On one device.
	EarlyExit *earlyexit.Options
}

// member is a device with the graph before the passes as it computes it.
func member(m *model.Model, d backend.Device, o Options) (x compile.Member, err error) {
	info := d.Info()
	if x.Graph, err = m.Graph(model.Options{Act: info.Act, Cache: o.Cache}); err != nil {
		return x, err
	}
	weights, err := pass.OnLoadFormat(o.Quantization, info.Act)
	if err != nil {
		return x, fmt.Errorf("throughput: --quantization: %w", err)
	}
	x.Device = d
	x.Passes = pass.Options{Loads: o.Loads, Q8: info.Q8, BF16: info.BF16, Weights: weights, Inputs: pass.OnLoadInputs(o.Quantization), Kernels: compile.Kernels{Device: d}, Adapters: o.LoRAs}
	return x, nil
}

// New compiles a model for a device, or those of a layout, and measures the first one's peaks.
func New(m *model.Model, files compile.Tensors, devices []backend.Device, o Options) (*Runner, error) {
	dev := devices[0]
	measurer, ok := dev.(backend.Measurer)
	if !ok {
		return nil, fmt.Errorf("throughput: device %s cannot measure its own peaks; take cpu or cuda", dev.Info().Name)
	}
	info := dev.Info()
	var members []compile.Member
	for _, d := range devices {
		x, err := member(m, d, o)
		if err != nil {
			return nil, err
		}
		members = append(members, x)
	}
	g := members[0].Graph
	whole, err := pass.Run(g, pass.All, members[0].Passes)
	if err != nil {
		return nil, err
	}
	pageSize := graph.PageTokens(o.Cache)
	lim := backend.Limits{Tokens: max(o.Chunk, o.Batch), Seqs: o.Batch, Logits: o.Batch, PageSize: pageSize, Adapters: o.LoRAs.Slots}
	lim.SeqPages = o.Tokens/pageSize + 1
	own := max(o.Layout.Data, 1) // devices with sequences of their own
	lim.Pages = lim.SeqPages * ((o.Batch + own - 1) / own)
	lim.KeepAll(whole)
	r := &Runner{graph: whole, share: len(devices)}
	var prog compile.Runner
	if len(devices) == 1 {
		if r.one, err = compile.Compile(whole, dev, files, lim); err == nil {
			prog = r.one
		}
		if err == nil && o.EarlyExit != nil {
			r.exits, err = earlyexit.Compile(r.one, g, files, *o.EarlyExit, func(g *graph.Graph) (*graph.Graph, error) { return pass.Run(g, pass.All, members[0].Passes) })
			if prog = r.exits; err != nil {
				r.one.Close()
			}
		}
	} else {
		l := o.Layout
		if o.Last > 0 {
			l = pass.WithoutExperts(g.Layers(), o.Last, o.Experts)
			l.ExpertSlots = o.Slots
		}
		if l, err = compile.FitTo(dev, l, g); err != nil {
			return nil, fmt.Errorf("throughput: %w", err)
		}
		lim.Divide(l.PageRanks())
		if l.OwnSequences() {
			lim.Times(l.Data)
		}
		if o.Last > 0 {
			if r.stages, err = stagesOf(members, l); err != nil {
				return nil, err
			}
		}
		prog, err = compile.CompileMembers(l, members, files, lim)
	}
	if err != nil {
		return nil, err
	}
	prog.Warm()
	*r = Runner{prog: prog, one: r.one, exits: r.exits, graph: whole, share: len(devices), stages: r.stages, info: info, vocab: prog.Vocab(), chunk: lim.Tokens, rank: o.LoRAs.Rank, rnd: rand.New(rand.NewPCG(1, 2))}
	if !prog.CanSample() {
		r.logits = make([]float32, o.Batch*r.vocab)
	}
	if err := FillSlots(prog, r.rnd); err != nil {
		prog.Close()
		return nil, err
	}
	r.peaks, err = measurer.Peaks()
	return r, err
}

// stagesOf are the parts of a model on devices of several backends, and what the devices can do.
func stagesOf(members []compile.Member, l pass.Layout) (all []stage, err error) {
	for i, x := range members {
		measurer, ok := x.Device.(backend.Measurer)
		if !ok {
			return nil, fmt.Errorf("throughput: device %s cannot measure its own peaks; take cuda", x.Device.Info().Name)
		}
		o := x.Passes
		o.Layout, o.Rank = l, l.Rank(i)
		var s stage
		if s.graph, err = pass.Run(x.Graph, pass.All, o); err != nil {
			return nil, err
		}
		if s.peaks, err = measurer.Peaks(); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// Peaks is what the device could do when New measured it.
func (r *Runner) Peaks() backend.Peaks { return r.peaks }

// Expect has Run predict each test by the device's profile.
func (r *Runner) Expect(p *price.Profile) (err error) {
	r.price, err = r.Price(p)
	return err
}

// predict is how long steps should take, s; 0 without a profile.
func (r *Runner) predict(steps []*graph.Step) float64 {
	if r.price == nil {
		return 0
	}
	sum := 0.0
	for _, s := range steps {
		sum += r.price.Predict(s)
	}
	return sum
}

// Close frees the program.
func (r *Runner) Close() { r.prog.Close() }

// Run measures a test so many times, after one run that does not count. It ends between steps with ctx, and with its error.
func (r *Runner) Run(ctx context.Context, t Test, runs int) (Row, error) {
	if err := r.fillCache(ctx, t.Depth, t.Batch); err != nil {
		return Row{}, err
	}
	row := Row{Test: t, Threads: r.info.Threads, Runs: runs}
	steps := r.steps(t)
	var limit time.Duration
	tokens := 0
	for _, s := range steps {
		limit += r.floor(s)
		tokens += s.Tokens()
	}
	row.Limit = float64(tokens) / limit.Seconds()
	if seconds := r.predict(steps); seconds > 0 {
		row.Predicted = float64(tokens) / seconds
	}
	var rates []float64
	before := r.left()
	for i := range runs + 1 {
		start := time.Now()
		for _, s := range steps {
			if err := r.step(ctx, s); err != nil {
				return row, err
			}
		}
		if err := r.finish(); err != nil {
			return row, err
		}
		if i > 0 {
			rates = append(rates, float64(tokens)/time.Since(start).Seconds())
		}
	}
	slices.Sort(rates)
	row.Median, row.Low, row.High = rates[len(rates)/2], rates[0], rates[len(rates)-1]
	row.Fraction = row.Median / row.Limit
	if after := r.left(); after.tokens > before.tokens {
		row.Layers = float64(after.layers-before.layers) / float64(after.tokens-before.tokens)
	}
	return row, nil
}

// left is how many tokens have left the model, and the layers that they went through, all together.
type left struct{ tokens, layers int64 }

func (r *Runner) left() (sum left) {
	if r.exits == nil {
		return sum
	}
	layers := r.exits.Layers()
	for i, n := range r.exits.Exits() {
		sum.tokens += n
		sum.layers += n * int64(layers[i])
	}
	return sum
}

// steps is a test as the steps it takes.
func (r *Runner) steps(t Test) []*graph.Step {
	var all []*graph.Step
	if t.Decode > 0 {
		for i := range t.Decode {
			s := &graph.Step{Logits: t.Batch}
			for range t.Batch {
				s.Seqs = append(s.Seqs, graph.Seq{New: 1, Past: t.Depth + i})
			}
			GiveAdapters(s, t.LoRAs, r.rank)
			all = append(all, s)
		}
		return all
	}
	for at := 0; at < t.Prompt; {
		n := min(max(r.chunk/t.Batch, 1), t.Prompt-at)
		s := &graph.Step{Logits: t.Batch}
		for range t.Batch {
			s.Seqs = append(s.Seqs, graph.Seq{New: n, Past: t.Depth + at})
		}
		GiveAdapters(s, t.LoRAs, r.rank)
		all = append(all, s)
		at += n
	}
	return all
}

// floor is the least time of a step.
func (r *Runner) floor(s *graph.Step) time.Duration {
	var sum time.Duration
	for _, x := range r.stages {
		for _, n := range x.graph.Nodes {
			sum += x.peaks.Floor(n, s)
		}
	}
	if r.stages != nil {
		return sum
	}
	for _, n := range r.graph.Nodes {
		sum += r.peaks.Floor(n, s)
	}
	if r.info.Replays { // every GPU has its own arithmetic and memory; CPU devices of one process share them
		return sum / time.Duration(r.share)
	}
	return sum
}
