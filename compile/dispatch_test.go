package compile_test

import (
	"errors"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/ref"
	"github.com/ridge-llm/ridge/comm/local"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/testkit"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/quant"
)

const routedTokens = 2000

// routed is a block of experts whose router looks scores up by token: which experts a row has is known from weights.
func routed(t *testing.T, experts, top int) (*graph.Graph, testkit.Weights) {
	t.Helper()
	axis := func(name string, n int) graph.Axis { return graph.Axis{Name: name, Count: n, Size: 1} }
	vocab, hidden, ffn, of := axis("vocab", routedTokens), axis("hidden", 16), axis("ffn", 8), axis("experts", experts)
	b := graph.NewBuilder("routed", testkit.Lookup, graph.F32, graph.F32)
	x, scores := b.Embed("x", b.Weight("embd", vocab, hidden), 0), b.Embed("scores", b.Weight("scores_embd", vocab, of), 0)
	b.Layer(0)
	y := b.MoE("experts", x, scores, graph.MoE{Experts: experts, TopK: top}, []*graph.Weight{b.Stack("gate", of, ffn, hidden), b.Stack("up", of, ffn, hidden), b.Stack("down", of, hidden, ffn)})
	g, err := b.Finish(b.SelectRows("selected", b.Add("sum", x, y)))
	if err != nil {
		t.Fatal(err)
	}
	weights, err := testkit.RandomWeights(g, 5)
	if err != nil {
		t.Fatal(err)
	}
	return g, weights
}

// TestDispatch: rows that go to the devices of their experts come back as one device makes them, over every number of devices that divides the experts; each goes once to a
// device and no other does, to the byte; as many go, on average, as the graph says; and experts compute no row twice.
func TestDispatch(t *testing.T) {
	const experts, top, hidden = 8, 3, 16
	lim := backend.Limits{Tokens: 600, Seqs: 3, Logits: 600, PageSize: 16, SeqPages: 80, Pages: 240}
	g, weights := routed(t, experts, top)
	oneDevice := ref.New()
	one, err := compile.Compile(g, oneDevice, weights, lim)
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	chosen := choices(weights["scores_embd"], experts, top)
	for _, ranks := range []int{2, 4, 8} {
		l := pass.Layout{Tensor: 1, Pipeline: 1, Data: 1, Sequence: ranks, Expert: ranks, Method: pass.Ulysses}
		s := spreadExperts(t, g, weights, l, pass.ExpertLoads{}, lim)
		var said, rows float64 // bytes of rows, there and back
		for _, b := range testkit.Sequence(testkit.Steps{{200, 200, 200}, {1, 0, 0}, {7, 2, 300}, {3, 0, 1}, {200, 200, 200}, {200, 200, 200}}, lim, routedTokens, true, 9) {
			oneDevice.Counted()
			var computed int64
			if err := one.Run(b); err != nil {
				t.Fatal(err)
			}
			s.run(t, b)
			n := len(b.LogitsIndices)
			got, want := make([]float32, n*hidden), make([]float32, n*hidden)
			if err := errors.Join(s.programs[0].Logits(got, 0, n), one.Logits(want, 0, n)); err != nil {
				t.Fatal(err)
			}
			if worst := testkit.WorstError(got, want); worst > 1e-5 || math.IsNaN(worst) {
				t.Errorf("%d devices: rows differ by %g", ranks, worst)
			}
			own := make([]int, ranks)
			bytes := make([]int64, ranks) // that each device has to send
			moved := 0.0
			for r, id := range b.Tokens {
				at := r * ranks / len(b.Tokens)
				own[at]++
				if at > 0 {
					bytes[at] += 4 * hidden // its row is selected
				}
				for to := range ranks {
					if to != at && slices.ContainsFunc(chosen[id], func(e int) bool { return e*ranks/experts == to }) {
						bytes[at] += 4 * hidden
						bytes[to] += 4 * hidden
						moved += 8 * hidden
					}
				}
			}
			var step graph.Step
			b.Step(&step)
			for i, part := range s.parts {
				computed += s.devices[i].Counted().FLOPs
				shares := int64(own[i] * (ranks - 1) * experts / ranks * 4)
				if sent := s.sent[i].bytes.Load(); sent != bytes[i]+shares {
					t.Errorf("device %d of %d, with %d rows, sends %d bytes; its rows and results are %d and their shares %d", i, ranks, own[i], sent, bytes[i], shares)
				}
				if len(b.Tokens)%ranks == 0 {
					for _, n := range part.Nodes {
						switch n.Op.(type) {
						case graph.Dispatch:
							said += float64(n.Op.Work(n, part.StepOf(n, &step)).LinkBytes - shares)
						case graph.Combine:
							said += float64(n.Op.Work(n, part.StepOf(n, &step)).LinkBytes)
						}
					}
				}
			}
			if len(b.Tokens)%ranks == 0 {
				rows += moved
			}
			if of := oneDevice.Counted().FLOPs; float64(computed) > 1.15*float64(of) {
				t.Errorf("%d devices compute %d operations, one %d", ranks, computed, of)
			}
		}
		if off := rows/said - 1; math.Abs(off) > 0.03 {
			t.Errorf("%d devices: %.0f bytes of rows are sent, the graph says %.0f", ranks, rows, said)
		}
	}
}

// spreadExperts is a graph on devices that divide rows and experts.
func spreadExperts(t *testing.T, g *graph.Graph, weights testkit.Weights, l pass.Layout, loads pass.ExpertLoads, lim backend.Limits) *spread {
	t.Helper()
	s := &spread{}
	for i, peers := range local.New(l.Sequence) {
		part, err := pass.Run(g, pass.All, pass.Options{Layout: l, Rank: pass.Rank{Sequence: i}, Loads: loads})
		if err != nil {
			t.Fatal(err)
		}
		dev, sent := ref.New(), &counter{Communicator: peers}
		p, err := compile.CompileRank(part, g, dev, weights, lim, compile.Ranks{Sequence: sent})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		s.parts, s.programs, s.devices, s.sent = append(s.parts, part), append(s.programs, p), append(s.devices, dev), append(s.sent, sent)
	}
	return s
}

// TestDispatchPlaced: with experts placed by load the results are one device's, the device with most to compute has less than in order, and rows whose experts are all at home are not sent.
func TestDispatchPlaced(t *testing.T) {
	const experts, top, hidden, ranks = 8, 2, 16, 4
	lim := backend.Limits{Tokens: 400, Seqs: 1, Logits: 400, PageSize: 16, SeqPages: 25, Pages: 25}
	g, weights := routed(t, experts, top)
	one, err := compile.Compile(g, ref.New(), weights, lim)
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	l := pass.Layout{Tensor: 1, Pipeline: 1, Data: 1, Sequence: ranks, Expert: ranks, Method: pass.Ulysses}
	chosen := choices(weights["scores_embd"], experts, top)
	b := testkit.Sequence(testkit.Steps{{400}}, lim, routedTokens, true, 9)[0]
	for i, id := range b.Tokens { // of which most have one of the first two experts
		for k := id; i%4 > 0; k = (k + 1) % routedTokens {
			if slices.Contains(chosen[k], i%2) {
				b.Tokens[i] = k
				break
			}
		}
	}
	counts := make([]float32, experts)
	for _, id := range b.Tokens {
		for _, e := range chosen[id] {
			counts[e]++
		}
	}
	if err := one.Run(b); err != nil {
		t.Fatal(err)
	}
	want := make([]float32, len(b.Tokens)*hidden)
	if err := one.Logits(want, 0, len(b.Tokens)); err != nil {
		t.Fatal(err)
	}
	var most [3]int64 // operations of the device that has most
	for i, loads := range []pass.ExpertLoads{{}, {Counts: map[string][]float32{"gate": counts}, Extra: 1}, {Extra: experts - experts/ranks}} {
		s := spreadExperts(t, g, weights, l, loads, lim)
		s.run(t, b)
		got := make([]float32, len(want))
		if err := s.programs[0].Logits(got, 0, len(b.Tokens)); err != nil {
			t.Fatal(err)
		}
		if worst := testkit.WorstError(got, want); worst > 1e-5 || math.IsNaN(worst) {
			t.Errorf("placed by %+v rows differ by %g", loads, worst)
		}
		for rank, dev := range s.devices {
			most[i] = max(most[i], dev.Counted().FLOPs)
			if own := int64(len(b.Tokens) / ranks); i == 2 {
				shares, selected := own*(ranks-1)*experts*4, int64(0)
				if rank > 0 {
					selected = own * 4 * hidden
				}
				if sent := s.sent[rank].bytes.Load(); sent != shares+selected {
					t.Errorf("device %d has all experts and sends %d bytes; shares and selected rows are %d", rank, sent, shares+selected)
				}
			}
		}
	}
	if float64(most[1]) > 0.8*float64(most[0]) {
		t.Errorf("the device with most to compute has %d operations, and %d with experts in order", most[1], most[0])
	}
}

// choices is which experts each token has, by its scores.
func choices(scores quant.Tensor, experts, top int) [][]int {
	all := make([][]int, scores.Rows)
	row := make([]float32, experts)
	for id := range all {
		quant.Decode(scores.Format, row, scores.Row(id))
		order := make([]int, experts)
		for e := range order {
			order[e] = e
		}
		slices.SortStableFunc(order, func(a, b int) int {
			switch {
			case row[a] > row[b]:
				return -1
			case row[a] < row[b]:
				return 1
			}
			return 0
		})
		all[id] = order[:top]
	}
	return all
}

// TestDispatchEnds: a device that fails between two exchanges ends what the others wait for.
func TestDispatchEnds(t *testing.T) {
	lim := backend.Limits{Tokens: 8, Seqs: 1, Logits: 8, PageSize: 16, SeqPages: 1, Pages: 1}
	g, weights := routed(t, 4, 2)
	l := pass.Layout{Tensor: 1, Pipeline: 1, Data: 1, Sequence: 2, Expert: 2, Method: pass.Ulysses}
	peers := local.New(2)
	part, err := pass.Run(g, pass.All, pass.Options{Layout: l})
	if err != nil {
		t.Fatal(err)
	}
	p, err := compile.CompileRank(part, g, ref.New(), weights, lim, compile.Ranks{Sequence: peers[0]})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	gone := errors.New("rank 1 is gone")
	var waits sync.WaitGroup
	waits.Go(func() { peers[1].Abort(gone) })
	if err := p.Run(testkit.Sequence(testkit.Steps{{8}}, lim, routedTokens, true, 1)[0]); !errors.Is(err, gone) {
		t.Errorf("a step without the other device: %v", err)
	}
	waits.Wait()
}
