package compile_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/ref"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/testkit"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/quant"
)

// slowLoader sets experts some steps after it was asked to. Until then there are other numbers in their place.
type slowLoader struct {
	*ref.Device
	waits []func() error
	fails error
}

func (d *slowLoader) SetExpert(weights []backend.Weight, number int, from []quant.Tensor, set func(error)) error {
	var wrong []quant.Tensor
	for _, t := range from {
		w := quant.Tensor{Format: quant.F32, Rows: t.Rows, Cols: t.Cols, Data: make([]byte, 4*t.Rows*t.Cols)}
		for i := range w.Data {
			w.Data[i] = 0x47 // 51015
		}
		wrong = append(wrong, w)
	}
	if err := d.Device.SetExpert(weights, number, wrong, func(error) {}); err != nil {
		return err
	}
	d.waits = append(d.waits, func() error {
		if d.fails != nil {
			set(d.fails)
			return nil
		}
		return d.Device.SetExpert(weights, number, from, set)
	})
	return nil
}

// TestExpertCache: rows through experts on one device, of which the other has some in slots, come out as one device makes them, before, while and after others take the slots; experts that are
// used most are in the slots in the end, and their rows are counted.
func TestExpertCache(t *testing.T) {
	const experts, top, hidden, slots = 16, 3, 16, 4
	lim := backend.Limits{Tokens: 64, Seqs: 1, Logits: 64, PageSize: 16, SeqPages: 4, Pages: 4}
	g, weights := routed(t, experts, top)
	one, err := compile.Compile(g, ref.New(), weights, lim)
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	l := pass.WithoutExperts(1, 1, 1)
	l.ExpertSlots = slots
	loader := &slowLoader{Device: ref.New()}
	group, err := compile.CompileMembers(l, []compile.Member{{Device: ref.New(), Graph: g}, {Device: loader, Graph: g}}, weights, lim)
	if err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	chosen := choices(weights["scores_embd"], experts, top)
	var usual []int32 // tokens whose experts are few: the most that four slots have
	for id := range int32(routedTokens) {
		high := 0
		for _, e := range chosen[id] {
			if e >= experts-slots {
				high++
			}
		}
		if high == top {
			usual = append(usual, id)
		}
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	var before compile.ExpertCaching
	for step := range 60 {
		b := testkit.Sequence(testkit.Steps{{17}}, lim, routedTokens, true, uint64(step))[0]
		for i := range b.Tokens {
			if rnd.IntN(4) > 0 {
				b.Tokens[i] = usual[rnd.IntN(len(usual))]
			}
		}
		if err := errors.Join(one.Run(b), group.Run(b)); err != nil {
			t.Fatal(err)
		}
		n := len(b.LogitsIndices)
		got, want := make([]float32, n*hidden), make([]float32, n*hidden)
		if err := errors.Join(group.Logits(got, 0, n), one.Logits(want, 0, n)); err != nil {
			t.Fatal(err)
		}
		if worst := testkit.WorstError(got, want); !(worst <= 1e-5) {
			t.Fatalf("step %d: rows differ by %g; %+v", step, worst, group.ExpertCaching())
		}
		if step%3 == 2 {
			for _, set := range loader.waits {
				if err := set(); err != nil {
					t.Fatal(err)
				}
			}
			loader.waits = nil
		}
		if step == 29 {
			before = group.ExpertCaching()
		}
	}
	after := group.ExpertCaching()
	if after.Slots != slots || after.Passes != 60*17*top || after.Exchanges < slots || after.Exchanges > 3*slots {
		t.Errorf("%+v after 60 steps of 17 rows", after)
	}
	if rate := float64(after.Hits-before.Hits) / float64(after.Passes-before.Passes); rate < 0.75 {
		t.Errorf("%.2f of the rows through experts found theirs in a slot; of three quarters the experts are four", rate)
	}

	loader.fails = errors.New("the bus is on fire")
	for step := 0; err == nil && step < 200; step++ {
		b := testkit.Sequence(testkit.Steps{{17}}, lim, routedTokens, true, uint64(step))[0]
		for i := range b.Tokens {
			b.Tokens[i] = 7 // has other experts
		}
		err = group.Run(b)
		for _, set := range loader.waits {
			if err := set(); err != nil {
				t.Fatal(err)
			}
		}
		loader.waits = nil
	}
	if err == nil || !strings.Contains(err.Error(), "the bus is on fire") {
		t.Errorf("an expert that cannot be copied: %v", err)
	}
}

// TestExpertCacheWork: what both devices compute is what one would, wherever experts are.
func TestExpertCacheWork(t *testing.T) {
	g, _ := routed(t, 16, 3)
	l := pass.WithoutExperts(1, 1, 1)
	l.ExpertSlots = 4
	passes := func(g *graph.Graph) (n float64) {
		for _, x := range g.Nodes {
			if o, ok := graph.Experts(x); ok {
				n += o.Passes(100)
			}
		}
		return n
	}
	sum := 0.0
	for i := range 2 {
		part, err := pass.Partition(g, pass.Options{Layout: l, Rank: l.Rank(i)})
		if err != nil {
			t.Fatal(err)
		}
		sum += passes(part)
	}
	if want := passes(g); sum < 0.99*want || sum > 1.01*want {
		t.Errorf("100 rows pass %g experts on two devices, and %g on one", sum, want)
	}
}
