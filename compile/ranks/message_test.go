package ranks

import (
	"math/rand/v2"
	"reflect"
	"testing"

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
