package heads512

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
	"github.com/ridge-llm/ridge/graph"
)

// TestMirrors; what the kernels compute is tested by the op table (backend/cuda/device_test.go).
func TestMirrors(t *testing.T) {
	gputest.Mirrors(t, "attention/heads512/heads512", map[string]uintptr{"heads512_": unsafe.Sizeof(params{})})
}

// TestSplits: partial results of sequences with one new token never take more than their memory.
func TestSplits(t *testing.T) {
	p := Problem{Heads: 16, KVHeads: 2, VSize: MaxSize}
	k := &Kernel{sms: 132, base: params{KVHeads: 2}}
	for seqs := 1; seqs < 600; seqs++ {
		if n := k.splits(seqs, 1<<17); n > 1 && int64(seqs*p.KVHeads*n)*queries*int64(p.VSize+2)*4 > PartialBytes(k.sms, seqs, p) {
			t.Errorf("%d sequences in %d splits take more than %d bytes", seqs, n, PartialBytes(k.sms, seqs, p))
		}
	}
	if n := k.splits(1, 100); n != 1 {
		t.Errorf("100 keys go in %d splits", n)
	}
}

// BenchmarkHeads512 is a layer of full attention of Gemma 4 31B: 32 heads of 512 that share 4 key heads.
func BenchmarkHeads512(b *testing.B) {
	const heads, kvHeads, page = 32, 4, 16
	gputest.Run(b, func(g *gputest.GPU) {
		for _, c := range []struct{ seqs, length, fresh int }{{1, 4096, 1}, {1, 32768, 1}, {64, 4096, 1}, {1, 2048, 2048}, {1, 8192, 8192}, {1, 32768, 2048}} {
			g.Scope(func() {
				w := gputest.Workload{Seqs: c.seqs, Length: c.length, New: c.fresh, Page: page}
				if c.fresh > 1 {
					w.TileRows = tileRows
				}
				step, tiles := g.Step(w)
				p := Problem{Q: g.Noise(w.Tokens() * heads * MaxSize * 2), Y: g.Poisoned(w.Tokens() * heads * MaxSize * 2), Heads: heads, KVHeads: kvHeads, KSize: MaxSize, VSize: MaxSize, Scale: 0.05, Type: graph.BF16}
				bytes := c.seqs * c.length * kvHeads * 2 * MaxSize * 2
				partial := g.Poisoned(int(PartialBytes(g.Loader.SMs(), c.seqs, p)))
				var all []*Kernel
				for range max(1, 256<<20/bytes+1) {
					p.Cache = g.Noise(bytes)
					k, err := New(g.Loader, p, partial)
					g.Must(err)
					all = append(all, k)
				}
				d := g.Time(func(run int) error {
					if k := all[run%len(all)]; tiles > 0 {
						return k.Prompts(g.Stream, &step, tiles)
					} else {
						return k.Decode(g.Stream, &step, 0, c.seqs)
					}
				}).Seconds()
				pairs := float64(c.seqs*c.fresh) * (float64(c.length) - float64(c.fresh-1)/2)
				fmt.Printf("heads of 512, %2d × %5d, %4d new: %9.1f µs  %5.2f TB/s  %6.1f TFLOP/s  %s\n", c.seqs, c.length, c.fresh, d*1e6, float64(bytes)/d/1e12, pairs*heads*4*MaxSize/d/1e12, g.Registers(all[0].attend))
			})
		}
	})
}
