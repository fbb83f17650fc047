package cpu

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/gemm"
	"github.com/ridge-llm/ridge/backend/cpu/threads"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/testkit"
	"github.com/ridge-llm/ridge/quant"
)

// watched is weights that record what is released.
type watched struct {
	testkit.Weights
	mu       sync.Mutex
	released [][]byte
}

// Release implements compile.Tensors; workers call it at once.
func (w *watched) Release(part []byte) {
	w.mu.Lock()
	w.released = append(w.released, part)
	w.mu.Unlock()
}

// bytes is how much of a tensor has been released, each byte counted as often as it was.
func (w *watched) bytes(t quant.Tensor) int {
	n := 0
	for _, part := range w.released {
		if off := uintptr(unsafe.Pointer(&part[0])) - uintptr(unsafe.Pointer(&t.Data[0])); off < uintptr(len(t.Data)) {
			n += len(part)
		}
	}
	return n
}

// products is a graph of n matmuls in a block format; the matrices' rows are not a multiple of what is packed together.
func products(t *testing.T, d *Device, f quant.Format, n int) (*compile.Program, *watched) {
	t.Helper()
	b := graph.NewBuilder("products", testkit.Lookup, graph.F32, graph.F16)
	one := func(name string, size int) graph.Axis { return graph.Axis{Name: name, Count: size, Size: 1} }
	hidden, ffn := one("hidden", 256), one("ffn", 300)
	x := b.Embed("embd", b.Weight("token_embd", one("vocab", 61), hidden), 0)
	var sum *graph.Value
	for i := range n {
		q := b.Emit(fmt.Sprintf("q%d", i), graph.Quantize{To: graph.Q8}, []*graph.Value{x})[0]
		y := b.Linear(fmt.Sprintf("y%d", i), q, b.Weight(fmt.Sprintf("w%d/%v", i, f), ffn, hidden), nil)
		if sum == nil {
			sum = y
		} else {
			sum = b.Add(fmt.Sprintf("sum%d", i), sum, y)
		}
	}
	g, err := b.Finish(b.SelectRows("selected", sum))
	if err != nil {
		t.Fatal(err)
	}
	random, err := testkit.RandomWeights(g, 7)
	if err != nil {
		t.Fatal(err)
	}
	w := &watched{Weights: random}
	p, err := compile.Compile(g, d, w, backend.Limits{Tokens: 200, Seqs: 1, Logits: 200, Pages: 16, PageSize: 16, SeqPages: 16})
	if err != nil {
		t.Fatal(err)
	}
	return p, w
}

func testDevice(tier gemm.Tier, n int) *Device {
	d := &Device{tier: tier, pool: newWorkers(tier, n, threads.Topology{})}
	d.start()
	return d
}

// rowsOf is the output of a step of m tokens.
func rowsOf(t *testing.T, p *compile.Program, m int) []uint32 {
	t.Helper()
	if err := p.Run(testkit.Sequence(testkit.Steps{{m}}, p.Limits(), 61, true, 5)[0]); err != nil {
		t.Fatal(err)
	}
	out := make([]float32, m*300)
	if err := p.Logits(out, 0, m); err != nil {
		t.Fatal(err)
	}
	bits := make([]uint32, len(out))
	for i, x := range out {
		bits[i] = math.Float32bits(x)
	}
	return bits
}

// TestLazyPack: whether weights are streamed through the buffer, are packed on the way or were packed before makes no difference to
// the last bit, under any tier, in any format, for steps of few rows, of some that still stream, and of many.
func TestLazyPack(t *testing.T) {
	for i, tier := range tiers() {
		for _, f := range quant.Formats() {
			if gemm.PackedBytes(f, 32, 256) == 0 || i > 0 && f != quant.Q4_K && f != quant.Q6_K {
				continue
			}
			warm := testDevice(tier, 1)
			known, _ := products(t, warm, f, 1)
			known.Warm()
			for _, m := range []int{3, 40, maxStreamRows + 1} {
				want := rowsOf(t, known, m)
				d := testDevice(tier, 1+i%3)
				p, w := products(t, d, f, 1)
				matrix := w.Weights[fmt.Sprintf("w0/%v", f)]
				for step := range 4 {
					fresh := len(d.unpacked)
					if got := rowsOf(t, p, m); !slices.Equal(got, want) {
						t.Errorf("%v, %v, %d rows: step %d, with %d matrices not packed, computes something else than packed weights", tier, f, m, step, fresh)
					}
				}
				if n := w.bytes(matrix); n != len(matrix.Data) || len(d.unpacked) > 0 {
					t.Errorf("%v, %v, %d rows: %d of %d bytes of the file were released, %d matrices are not packed", tier, f, m, n, len(matrix.Data), len(d.unpacked))
				}
				p.Close()
				d.Close()
			}
			known.Close()
			warm.Close()
		}
	}
}

// TestLazyPackInSteps: steps of few rows pack a part of the weights each, in order; one of many packs the rest.
func TestLazyPackInSteps(t *testing.T) {
	d := testDevice(gemm.Tiers()[0], 2)
	defer d.Close()
	p, w := products(t, d, quant.Q4_0, 2*packSteps)
	defer p.Close()
	packedNow := func() (n int) {
		for i := range 2 * packSteps {
			if w.bytes(w.Weights[fmt.Sprintf("w%d/Q4_0", i)]) > 0 {
				n++
			}
		}
		return n
	}
	for step, want := range []int{0, 2, 4} {
		rowsOf(t, p, 1)
		if n := packedNow(); n != want {
			t.Errorf("after step %d of few rows %d matrices of %d are packed; %d should be", step, n, 2*packSteps, want)
		}
	}
	rowsOf(t, p, maxStreamRows+1)
	if n := packedNow(); n != 2*packSteps || len(d.unpacked) > 0 {
		t.Errorf("after a step of many rows %d matrices of %d are packed", n, 2*packSteps)
	}
}

// TestLazyPackAborted: the stages that an aborted step has set do not count.
func TestLazyPackAborted(t *testing.T) {
	d := testDevice(gemm.Tiers()[0], 1)
	defer d.Close()
	p, _ := products(t, d, quant.Q4_0, 1)
	defer p.Close()
	d.unpacked[0].next = packed // as a step does that then panics
	d.count()
	d.advanceStages() // after another step, which did not use it
	if got := d.unpacked[0].stage; got != unpacked {
		t.Errorf("a matrix that no step has used to the end is at stage %d", got)
	}
}
