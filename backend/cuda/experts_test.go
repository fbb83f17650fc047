package cuda

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// TestSetExpert: with another expert in the place of one all of a block's matrices are on the GPU as if they had been placed so, to the byte, in every layout.
func TestSetExpert(t *testing.T) {
	if _, err := Devices(); err != nil {
		t.Skipf("no GPU to test on: %v", err)
	}
	d, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	const in, ffn, experts, slot = 128, 96, 5, 3
	made := 0
	matrix := func(f quant.Format, rows, cols int) quant.Tensor {
		made++
		x := make([]float32, rows*cols)
		for i := range x {
			x[i] = float32(math.Sin(float64(i*made + made)))
		}
		m := quant.Tensor{Format: f, Rows: rows, Cols: cols, Data: make([]byte, int64(rows)*f.RowBytes(cols))}
		if err := quant.Encode(f, m.Data, x); err != nil {
			t.Fatal(err)
		}
		return m
	}
	for _, f := range []quant.Format{quant.Q4_0, quant.Q8_0, quant.BF16} {
		shapes := [3][2]int{graph.ExpertGate: {ffn, in}, graph.ExpertUp: {ffn, in}, graph.ExpertDown: {in, ffn}}
		var before, after [3][]quant.Tensor
		var other []quant.Tensor
		for k, s := range shapes {
			for range experts {
				before[k] = append(before[k], matrix(f, s[0], s[1]))
			}
			other = append(other, matrix(f, s[0], s[1]))
			after[k] = append([]quant.Tensor{}, before[k]...)
			after[k][slot] = other[k]
		}
		placed := func(of [3][]quant.Tensor) (all []backend.Weight, at []driver.Ptr, sizes []int64) {
			for k, matrices := range of {
				w, err := d.Place(&graph.Weight{Name: fmt.Sprint(k), Stack: graph.Axis{Name: "experts", Count: experts, Size: 1}, Format: f}, matrices)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, w)
			}
			gate, up, down := all[0].(*stack), all[1].(*stack), all[2].(*stack)
			err := d.do(func() error {
				p, err := d.packedExperts(gate, up, f)
				if err != nil {
					return err
				}
				q, err := d.packedExperts(down, nil, f)
				if err != nil {
					return err
				}
				r, err := d.expertRows(up, graph.F32)
				at, sizes = []driver.Ptr{p, q, r}, []int64{gate.bytes, down.bytes, experts * ffn * in * 4}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			return all, at, sizes
		}
		read := func(at []driver.Ptr, sizes []int64) (all [][]byte) {
			err := d.do(func() error {
				if err := d.upload.wait(); err != nil {
					return err
				}
				for i, p := range at {
					host := make([]byte, sizes[i])
					if err := d.stream.Download(host, p); err != nil {
						return err
					}
					all = append(all, host)
				}
				return d.stream.Synchronize()
			})
			if err != nil {
				t.Fatal(err)
			}
			return all
		}
		weights, at, sizes := placed(before)
		done := make(chan error, 1)
		if err := d.SetExpert(weights, slot, other, func(err error) { done <- err }); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		_, wantAt, _ := placed(after)
		got, want := read(at, sizes), read(wantAt, sizes)
		for i := range got {
			if !bytes.Equal(got[i], want[i]) {
				t.Errorf("%s: layout %d is another one than that of the matrices placed so", f, i)
			}
		}
		if err := d.SetExpert(weights, experts, other, nil); err == nil {
			t.Error("an expert is set where there are fewer")
		}
	}
}
