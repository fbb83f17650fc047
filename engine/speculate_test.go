package engine

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/ref"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/engine/draft/draftmodel"
	"github.com/ridge-llm/ridge/engine/sample"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
)

// informed is a drafter that knows the answers and is right about most of their tokens, in chains and trees.
type informed struct {
	answers func(id int64) (prompt int, answer []sample.Choice)
	random  *rand.Rand
	trees   bool
	ended   map[int64]bool
}

func (d *informed) Name() string               { return "informed" }
func (d *informed) Seconds(int, int) float64   { return 0 }
func (d *informed) Forget(id int64, _ []int32) { d.ended[id] = true }
func (d *informed) Close() error               { return nil }
func (d *informed) any() int32                 { return int32(d.random.IntN(100)) - 1 } // and none of the vocabulary
func (d *informed) Propose(s []draft.Sequence) error {
	for i := range s {
		q := &s[i]
		if q.Draft = (draft.Draft{}); d.ended[q.ID] {
			return fmt.Errorf("request %d has ended", q.ID)
		}
		prompt, answer := d.answers(q.ID)
		known := len(q.Tokens) - prompt
		tree := d.trees && d.random.IntN(3) > 0
		at := -1 // the last token of the branch that is right
		depth := 0
		for n := range d.random.IntN(q.Max + 3) { // more than there may be
			id, parent := d.any(), n-1
			right := !tree || d.random.IntN(2) == 0
			if tree {
				parent = d.random.IntN(n+1) - 1
			}
			if right {
				if tree {
					parent = at
				}
				if known+depth < len(answer) && d.random.IntN(5) > 0 {
					id = answer[known+depth].Token
				}
				at, depth = n, depth+1
			}
			q.Draft.Tokens, q.Draft.Parents = append(q.Draft.Tokens, id), append(q.Draft.Parents, parent)
		}
		if !tree && d.random.IntN(2) == 0 {
			q.Draft.Parents = nil
		}
	}
	return nil
}

// speculated is a number of requests, and what they get alone and without drafts from a kind of model.
type speculated struct {
	kind    string // full, windows or recurrent
	want    [24][]sample.Choice
	ends    [24]Final
	prompts [24]int
}

// ask is request i.
func (x *speculated) ask(t *testing.T, i int, to *[]sample.Choice, end *Final) Request {
	r := varied(uint64(i), to, end)
	if i%4 == 3 && x.kind != "recurrent" { // whose vocabulary is another
		c := constrainedRequest(t, uint64(i), 20)
		r.Params, r.Ends, r.Grammar = c.Params, c.Ends, c.Grammar
	}
	return r
}

const recurrentModel = "../../shared/reference/architectures/lfm2"

// open is an engine on the model.
func (x *speculated) open(t *testing.T, samples bool, lim backend.Limits, o Options) *stepped {
	var dev backend.Device = ref.New()
	if !samples {
		dev = mute{dev}
	}
	switch x.kind {
	case "recurrent":
		return onStates(t, recurrentModel, dev, lim, o)
	case "windows":
		how := windows
		if lim.Pages < lim.Seqs*lim.SeqPages {
			how = tightly
		}
		return windowed(t, "gemma3-pattern", dev, graph.F32, lim, how, o)
	}
	return on(t, dev, lim, o)
}

// alone has each request answered alone.
func (x *speculated) alone(t *testing.T) {
	e := x.open(t, false, backend.Limits{Tokens: 64, Seqs: 1, Logits: 1, PageSize: 4, SeqPages: 16, Pages: 16}, Options{Index: "none"})
	for i := range x.want {
		r := x.ask(t, i, &x.want[i], &x.ends[i])
		x.prompts[i] = len(r.Prompt)
		if err := e.Submit(context.Background(), r); err != nil {
			t.Fatal(err)
		}
		for e.admit(); len(e.queue.byID) > 0; e.admit() {
			mustStep(t, e)
		}
	}
}

// together has the requests answered side by side, as they come at random, and compares.
func (x *speculated) together(t *testing.T, e *stepped, random *rand.Rand) {
	var got [len(x.want)][]sample.Choice
	var final [len(x.want)]Final
	for i := range got {
		if err := e.Submit(context.Background(), x.ask(t, i, &got[i], &final[i])); err != nil {
			t.Fatal(err)
		}
		for e.admit(); random.IntN(3) > 0 && len(e.queue.byID) > 0; e.admit() {
			e.meter.gap = random.Float64()
			mustStep(t, e)
		}
	}
	for e.admit(); len(e.queue.byID) > 0; e.admit() {
		e.meter.gap = random.Float64()
		mustStep(t, e)
		if e.meter.stats.Steps > 5000 {
			t.Fatal("the requests do not come to their ends")
		}
	}
	same := func(a, b sample.Choice) bool { return a.Token == b.Token && slices.EqualFunc(a.Top, b.Top, sameToken) }
	for i := range got {
		if !slices.EqualFunc(got[i], x.want[i], same) || final[i].Reason != x.ends[i].Reason || final[i].Err != nil {
			t.Errorf("request %d got %v (%+v); alone it got %v (%+v)", i, got[i], final[i], x.want[i], x.ends[i])
		}
	}
}

// TestSpeculation: whatever is drafted, in chains and trees, each request gets the answer that it gets alone without, be tokens sampled by the
// device or by the host, with penalties, grammars, ends, stops and log-probabilities, beside prompts in chunks, preempted, and in windows; and
// whether requests that are drafted for wait for their tokens apart, or the others with them, or nobody does.
func TestSpeculation(t *testing.T) {
	kinds := []string{"full", "windows", "recurrent"}
	if testing.Short() {
		kinds = kinds[:1]
	}
	for _, kind := range kinds {
		if _, err := os.Stat(recurrentModel); kind == "recurrent" && err != nil {
			t.Log("../shared, which has a model with recurrent layers, is not here")
			continue
		}
		x := &speculated{kind: kind}
		x.alone(t)
		count := &apartCount{}
		for round, o := range []Options{{}, {Index: "hash", StepTokens: 17}, {Index: "none"}, {}, {}, {}, {StepTokens: 31}} {
			lim := backend.Limits{Tokens: 64, Seqs: 6, Logits: 30, PageSize: 4, SeqPages: 16, Pages: 96}
			if round >= 3 {
				lim.Pages = 20 // some are preempted
			}
			t.Run(fmt.Sprint(kind, round), func(t *testing.T) {
				random := rand.New(rand.NewPCG(uint64(round), 1))
				d := &informed{func(id int64) (int, []sample.Choice) { return x.prompts[id], x.want[id] }, random, round%3 > 0, map[int64]bool{}}
				o.Speculation = Speculation{Tokens: min(2+3*round, 17), Always: round < 4, Failed: func(err error) { t.Error(err) }, Drafter: d}
				if round >= 2 {
					o.Speculation.Drafter, o.Predictor, o.Recorder = besides{d}, fickle{random}, count
				}
				if round%3 == 1 {
					ngram, err := draft.NewNGram(draft.NGramOptions{Min: 1})
					if err != nil {
						t.Fatal(err)
					}
					o.Speculation.Beside = []Beside{{Drafter: ngram}, {Drafter: draft.NewSuffix()}}
				}
				e := x.open(t, round%2 == 0, lim, o)
				x.together(t, e, random)
				s := e.meter.stats
				if s.AcceptedTokens < 5 || s.AcceptedTokens == s.DraftTokens {
					t.Errorf("%d of %d tokens were accepted: some should have been, and some not", s.AcceptedTokens, s.DraftTokens)
				}
			})
		}
		if count.apart < 5 || count.batch < 30 {
			t.Errorf("%s: requests waited apart %d times, and others with them %d times", kind, count.apart, count.batch)
		}
	}
}

// besides is an informed drafter that is asked beside steps.
type besides struct{ *informed }

func (besides) Concurrent() bool { return true }

// onStates is an engine on a model with recurrent layers.
func onStates(t *testing.T, dir string, dev backend.Device, lim backend.Limits, o Options) *stepped {
	t.Helper()
	b, err := modeldir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	g, err := b.Model.Graph(model.Options{Act: graph.F32, Cache: graph.F32})
	if err != nil {
		t.Fatal(err)
	}
	backend.NewPaging(g, &lim).Share(&lim, backend.PrefixCache)
	prog, err := compile.Compile(g, dev, b, lim)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(prog.Close)
	return newStepped(t, prog, o)
}

// borrowed is a program that its Close leaves open: its owner closes it.
type borrowed struct{ compile.Runner }

func (borrowed) Close() {}

// submitPairs submits requests of which two and two have a beginning in common and every third is sampled.
func submitPairs(t *testing.T, e *stepped, got []collected) {
	t.Helper()
	for i := range got {
		prompt := make([]int32, 20+9*i)
		for j := range prompt {
			prompt[j] = int32(3 + (i/2*31+j*j)%90)
		}
		r := got[i].into(greedy(prompt, 30))
		if r.Params.Seed = uint64(i); i%3 == 2 {
			r.Params.Temperature = 0.7
		}
		if err := e.Submit(context.Background(), r); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSpeculationOnCPU: with real drafters, requests that share beginnings and are preempted or swapped out get, to the token, the greedy and
// sampled answers that they get without; weights are of formats whose kernels depend on the number of rows, so the device is asked to be deterministic.
func TestSpeculationOnCPU(t *testing.T) {
	const requests = 6
	run := func(o Options, lim backend.Limits) (got [requests]collected, e *stepped) {
		e = still(t, modeldir.Builtin, lim, o)
		submitPairs(t, e, got[:])
		for e.admit(); len(e.queue.byID) > 0; {
			if lim.SwapPages == 0 {
				mustStep(t, e)
				continue
			}
			if err := e.step(); err != nil {
				t.Fatal(err)
			}
			checkSwap(t, e)
		}
		return got, e
	}
	roomy := backend.Limits{Tokens: 128, Seqs: 6, Logits: 48, PageSize: 16, SeqPages: 10, Pages: 60}
	want, _ := run(Options{}, roomy)
	tight := roomy
	tight.Pages, tight.SwapPages = 11, 40
	for name, lim := range map[string]backend.Limits{"roomy": roomy, "tight": tight} {
		for round, always := range []bool{true, false, true, false} {
			if !always && lim.SwapPages > 0 {
				continue
			}
			d, err := draft.NewNGram(draft.NGramOptions{Min: 1})
			if err != nil {
				t.Fatal(err)
			}
			pages := &watchedPages{}
			if round >= 2 { // the model itself, which fits less of a prompt into a step
				less := draftmodel.Limits(lim, 30)
				less.Seqs, less.Logits, less.Pages = 4, 4, 4*less.SeqPages // some sequences lose their place
				prog := still(t, modeldir.Builtin, less, Options{}).prog
				small, err := draftmodel.New(borrowed{prog}, func() error { return nil })
				if err != nil {
					t.Fatal(err)
				}
				pages = &watchedPages{Paged: small.(draft.Paged)}
				d = pages
			}
			o := Options{Speculation: Speculation{Drafter: d, Tokens: 6, Always: always, Failed: func(err error) { t.Error(err) }}}
			if lim.SwapPages > 0 {
				o.Predictor = dear{}
			}
			got, e := run(o, lim)
			for i := range got {
				if !slices.Equal(got[i].tokens, want[i].tokens) {
					t.Errorf("%s, round %d: request %d got %v; without drafts %v", name, round, i, got[i].tokens, want[i].tokens)
				}
			}
			s := e.meter.stats
			t.Logf("%s, by %s, always %t: %d steps, %d of %d tokens accepted", name, d.Name(), always, s.Steps, s.AcceptedTokens, s.DraftTokens)
			if round == 2 && 10*s.AcceptedTokens < 8*s.DraftTokens {
				t.Errorf("%s: of the tokens that the model itself drafted, %d of %d were accepted", name, s.AcceptedTokens, s.DraftTokens)
			}
			if round >= 2 && (pages.dropped+pages.swapped != s.Preemptions || pages.swapped != s.Swaps || pages.back > pages.swapped || s.Swaps > 0 && pages.back == 0) {
				t.Errorf("%s: the drafter was told of %d preempted requests, %d swapped ones and %d that came back; there were %d, %d of them swapped", name, pages.dropped+pages.swapped, pages.swapped, pages.back, s.Preemptions, s.Swaps)
			}
			if always && s.AcceptedTokens == 0 || lim.SwapPages > 0 && s.Swaps == 0 {
				t.Errorf("%s: %d tokens accepted, %d swaps", name, s.AcceptedTokens, s.Swaps)
			}
		}
	}
}

// TestTriesStayRare: drafts that are worth it beside prompts, and only there, do not make tries frequent again; those that are in a step of answers do.
func TestTriesStayRare(t *testing.T) {
	p := &draftPlan{}
	for range 3 {
		p.trying = true
		p.launched(true)
	}
	p.trying, p.reading = false, true
	if p.launched(true); p.tryEvery() != tryAfter<<3 || p.unplanned != 0 {
		t.Errorf("after drafts beside prompts tries come every %d steps, the last one %d ago; %d and 0 wanted", p.tryEvery(), p.unplanned, tryAfter<<3)
	}
	p.reading = false
	if p.launched(true); p.tryEvery() != tryAfter {
		t.Errorf("after drafts that were worth it tries come every %d steps; %d wanted", p.tryEvery(), tryAfter)
	}
}

// watchedPages counts what a drafter with pages of its own is told of preempted requests.
type watchedPages struct {
	draft.Paged
	dropped, swapped, back int64
}

func (w *watchedPages) Preempted(id int64, swapped bool) error {
	if swapped {
		w.swapped++
	} else {
		w.dropped++
	}
	return w.Paged.Preempted(id, swapped)
}

func (w *watchedPages) Resumed(id int64) error {
	w.back++
	return w.Paged.Resumed(id)
}

// fixedRows is a sampler whose rows of logits are given.
type fixedRows struct {
	hostSampler
	rows [][]float32
}

func (s *fixedRows) choice(_ *InFlight, o *output, i, _ int) (sample.Choice, error) {
	return s.samplers[0].Sample(slices.Clone(s.rows[i]), o.request.sampling, nil)
}

func (s *fixedRows) likely(_ *InFlight, _ *output, i int) int32 {
	return int32(slices.Index(s.rows[i], slices.Max(s.rows[i])))
}

// TestDraftsKeepDistribution: pairs of tokens that come of a draft and, where it is not accepted, of the next step are distributed as the target has
// it, by a χ² test over many seeds, whatever was drafted.
func TestDraftsKeepDistribution(t *testing.T) {
	if testing.Short() {
		t.Skip("many draws on one goroutine")
	}
	const vocab, seeds = 6, 20000
	random := rand.New(rand.NewPCG(3, 4))
	rows := make([][]float32, 1+vocab) // after nothing, and after each token
	for i := range rows {
		for range vocab {
			rows[i] = append(rows[i], float32(2*random.NormFloat64()))
		}
	}
	chance := func(row []float32, id int) float64 {
		sum := 0.0
		for _, x := range row {
			sum += math.Exp(float64(x))
		}
		return math.Exp(float64(row[id])) / sum
	}
	for _, d := range []draft.Draft{{Tokens: []int32{1}}, {Tokens: []int32{4}}, {Tokens: []int32{0, 2, 5}, Parents: []int{-1, -1, -1}}} {
		var count [vocab * vocab]float64
		s := &fixedRows{hostSampler: hostSampler{samplers: make([]sample.Sampler, 1)}}
		for seed := range seeds {
			p := sample.Default()
			p.Seed, p.Temperature = uint64(seed), 1
			state, err := sample.NewState(p, vocab, nil)
			if err != nil {
				t.Fatal(err)
			}
			r := &request{Request: Request{Emit: func(sample.Choice) bool { return false }}, ctx: context.Background(), sampling: state, draft: d}
			r.sched.Limit = 100
			s.rows = [][]float32{rows[0]}
			for _, id := range d.Tokens {
				s.rows = append(s.rows, rows[1+id])
			}
			o := &output{request: r, rows: len(s.rows), sampled: len(s.rows)}
			o.take(s, nil, 0)
			if len(r.tokens) == 1 { // the next step's
				s.rows = [][]float32{rows[1+r.tokens[0]]}
				(&output{request: r, position: 1, rows: 1, sampled: 1}).take(s, nil, 0)
			}
			count[r.tokens[0]*vocab+r.tokens[1]]++
		}
		chi := 0.0
		for i, n := range count {
			want := seeds * chance(rows[0], i/vocab) * chance(rows[1+i/vocab], i%vocab)
			chi += (n - want) * (n - want) / want
		}
		// 35 degrees of freedom: 66.6 has a chance of 0.001. The seeds are fixed, and so is the result.
		if chi > 66.6 {
			t.Errorf("with the draft %+v χ² is %.1f", d, chi)
		}
	}
}
