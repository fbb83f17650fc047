package ranks

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/ridge-llm/ridge/backend/sampling"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/quant"
)

// adapted is what an adapter is for a weight, with something in every field that is sent.
func adapted(t testing.TB) *graph.LowRank {
	t.Helper()
	tensor := func(rows, cols int) quant.Tensor {
		x, err := quant.NewTensor(quant.F32, rows, cols, make([]byte, 4*rows*cols))
		if err != nil {
			t.Fatal(err)
		}
		for i := range x.Data {
			x.Data[i] = byte(i)
		}
		return x
	}
	return &graph.LowRank{A: tensor(2, 3), B: tensor(4, 2), Scale: 0.5, Columns: []float32{1, 2, 3, 4}, Bias: []float32{5, 6, 7, 8}, Rows: tensor(1, 3), Indices: []int32{2}, Stack: 2}
}

// TestLowRank: adapters come out as they went in, whatever they have of it; what is cut is an error.
func TestLowRank(t *testing.T) {
	full := adapted(t)
	for v, i := reflect.ValueOf(*full), 0; i < v.NumField(); i++ {
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() && name != "Packed" {
			t.Errorf("the test's adapter has no %s", name)
		}
	}
	for _, l := range []*graph.LowRank{nil, full, {A: full.A, B: full.B, Scale: 1}, {Bias: full.Bias}, {Rows: full.Rows}} {
		data := appendLowRank(nil, l)
		r := reader{data: data}
		got := r.lowRank()
		if err := r.end(); err != nil || !reflect.DeepEqual(got, l) {
			t.Errorf("%+v becomes %+v, %v", l, got, err)
		}
		for n := range len(data) {
			cut := reader{data: data[:n]}
			if cut.lowRank(); cut.end() == nil {
				t.Errorf("%d of %d bytes are an adapter", n, len(data))
			}
		}
	}
}

// FuzzLowRank: no bytes make the reader panic.
func FuzzLowRank(f *testing.F) {
	f.Add(appendLowRank(nil, adapted(f)))
	f.Fuzz(func(_ *testing.T, data []byte) {
		r := reader{data: data}
		r.lowRank()
		r.ints()
	})
}

// TestPlaces: every device of a layout has one rank, rank 0 the last stage's first, and groups are what their stages and tensor ranks share, in the order in which they count.
func TestPlaces(t *testing.T) {
	for range 200 {
		l := pass.Layout{Tensor: 1 + rand.IntN(8), Pipeline: 1 + rand.IntN(8), Data: 1}
		if at := Place(l, 0); at.Stage != l.Pipeline-1 || at.Tensor != 0 {
			t.Fatalf("%s: rank 0 has %s", l, at)
		}
		groups := Groups(l)
		seen := map[pass.Rank]bool{}
		for rank := range l.Devices() {
			at := Place(l, rank)
			if seen[at] || groups[at.Stage][at.Tensor] != rank || groups[l.Pipeline+at.Tensor][at.Stage] != rank {
				t.Fatalf("%s: rank %d has %s, groups %v", l, rank, at, groups)
			}
			seen[at] = true
		}
	}
}

// TestSamples: what is to be sampled comes out as it went in, with something in every field; what is cut, or out of range, is an error.
func TestSamples(t *testing.T) {
	const rows, vocab = 8, 70
	full := sampling.Sample{Row: 3, Temperature: 0.7, TopK: 5, TopP: 0.9, MinP: 0.1, TypicalP: 0.8, U: 0.25, Mask: []uint32{1, 2, 3}, Edits: []sampling.Edit{{ID: 69, Add: -1.5, Seen: 2, Counted: 1}},
		Repetition: 1.1, Frequency: 0.2, Presence: 0.3, Future: 7, Logprob: true, Top: 20}
	for v, i := reflect.ValueOf(full), 0; i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Fatalf("the sample of the test has no %s", v.Type().Field(i).Name)
		}
	}
	want := []sampling.Sample{full, {TopP: 1, TypicalP: 1, Future: -1}}
	data := appendSamples(nil, want)
	r := reader{data: data}
	if got := r.samples(nil, rows, vocab); r.end() != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; %+v went in", got, r.err, want)
	}
	for n := range data {
		r := reader{data: data[:n]}
		if r.samples(nil, rows, vocab); r.end() == nil {
			t.Fatalf("%d of %d bytes are samples", n, len(data))
		}
	}
	for what, spoil := range map[string]func(s *sampling.Sample){
		"row":    func(s *sampling.Sample) { s.Row = rows },
		"future": func(s *sampling.Sample) { s.Future = -2 },
		"mask":   func(s *sampling.Sample) { s.Mask = s.Mask[:2] },
		"top":    func(s *sampling.Sample) { s.Top = sampling.MaxTop + 1 },
		"edit":   func(s *sampling.Sample) { s.Edits = []sampling.Edit{{ID: vocab}} },
	} {
		s := full
		spoil(&s)
		r := reader{data: appendSamples(nil, []sampling.Sample{s})}
		if r.samples(nil, rows, vocab); r.err == nil {
			t.Errorf("a sample with a wrong %s is taken", what)
		}
	}
}
