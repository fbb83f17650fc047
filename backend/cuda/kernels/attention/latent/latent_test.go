package latent

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
	"github.com/ridge-llm/ridge/graph"
)

// TestMirrors; what the kernels compute is tested by the op table (backend/cuda/device_test.go).
func TestMirrors(t *testing.T) {
	gputest.Mirrors(t, "attention/latent/latent", map[string]uintptr{"latent_": unsafe.Sizeof(params{})})
	gputest.Mirrors(t, "attention/latent/latent_sm90", map[string]uintptr{"latent_wide": unsafe.Sizeof(params{}), "latent_pair": unsafe.Sizeof(pairParams{})})
}

// TestSplits: few rows are split until all multiprocessors have work, many are not, and partial results never take more than their memory.
func TestSplits(t *testing.T) {
	k := &Kernel{blocks: 2, sms: 132}
	for _, c := range []struct{ rows, longest, want int }{{1, 1 << 17, 64}, {1, 4096, 32}, {1, 100, 1}, {64, 4096, 1}, {128, 4096, 1}, {8192, 8192, 1}} {
		if got := k.splits(c.rows, c.longest); got != c.want {
			t.Errorf("%d rows of up to %d keys: %d splits, %d are right", c.rows, c.longest, got, c.want)
		}
	}
	p := Problem{Heads: 128, VSize: 512}
	for rows := 1; rows < 1000; rows++ {
		if n := k.splits(rows, 1<<17); n > 1 && int64(rows*n*k.blocks*heads*(p.VSize+2)*4) > PartialBytes(k.sms, rows, p) {
			t.Errorf("%d rows in %d splits take more than %d bytes", rows, n, PartialBytes(k.sms, rows, p))
		}
	}
}

// TestWide: the kernel for DeepSeek's shape gives what the one for any shape gives: of sequences with few keys and with many, in one split and in several,
// to all keys and to chosen ones, where few are chosen and where many are.
func TestWide(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		if !g.Loader.Hopper() {
			g.Skip("the kernel is one of Hopper's")
		}
		type problem struct {
			heads, splits, most int
			cache               graph.Type
		}
		problems := []problem{{128, 1, 0, graph.BF16}, {128, 2, 0, graph.BF16}, {16, 1, 0, graph.F16}, {80, 3, 0, graph.BF16}, {64, 1, 200, graph.BF16}, {64, 4, 200, graph.F16}}
		lengths := []int32{1, 2, 63, 64, 65, 128, 129, 200, 201, 700, 1501, 2048}
		if testing.Short() { // under the sanitizer: keys that fill no tile, one pair of tiles, and three
			problems, lengths = []problem{{128, 1, 0, graph.BF16}, {128, 2, 0, graph.F16}, {64, 1, 200, graph.BF16}}, []int32{1, 65, 128, 300}
		}
		for _, c := range problems {
			g.Scope(func() { compareWide(g, lengths, c.heads, c.splits, c.most, c.cache) })
		}
	})
}

func compareWide(g *gputest.GPU, lengths []int32, heads, splits, most int, cache graph.Type) {
	const page, k, v, seqPages = 16, wideK, wideV, 128
	rows := len(lengths)
	var rowSeq, qStart, pages []int32
	for i := range lengths {
		rowSeq, qStart = append(rowSeq, int32(i)), append(qStart, int32(i))
	}
	for _, at := range g.Rand.Perm(rows * seqPages) {
		pages = append(pages, int32(at))
	}
	step := kernels.Step{
		Counts: g.Ints(int32(rows), int32(rows), 0), RowSeq: g.Ints(rowSeq...), QStart: g.Ints(append(qStart, int32(rows))...), KVLen: g.Ints(lengths...), Pages: g.Ints(pages...),
		SeqPages: seqPages, PageShift: 4,
	}
	p := Problem{Q: g.BF16(g.Random(rows*heads*k, 1)), Cache: g.Noise(rows * seqPages * page * k * 2), Heads: heads, KSize: k, VSize: v, Scale: 0.1, Type: cache, Most: most}
	if most > 0 {
		var chosen []float32
		for _, n := range lengths {
			for i := range most {
				switch {
				case int32(i) >= n:
					chosen = append(chosen, -1)
				case int(n) <= most:
					chosen = append(chosen, float32(i))
				default:
					chosen = append(chosen, float32(i*int(n)/most))
				}
			}
		}
		p.Chosen = g.F32(chosen)
	}
	partial := g.Poisoned(rows * blocks(p) * splits * 64 * (v + 2) * 4)
	compute := func(bind func() (*Kernel, error)) []float32 {
		p.Y = g.Poisoned(rows * heads * v * 2)
		kernel, err := bind()
		g.Must(err)
		g.Must(kernel.launch(g.Stream, &step, 0, 0, rows, splits))
		return g.ReadBF16(p.Y, rows*heads*v)
	}
	var want []float64
	for _, x := range compute(func() (*Kernel, error) {
		return bind(g.Loader, p, partial, "attention/latent/latent", "latent_attention", 256, Shared)
	}) {
		want = append(want, float64(x))
	}
	near := func(name string, got []float32) {
		for r, n := range lengths {
			at := r * heads * v
			g.Near(fmt.Sprintf("%s: %d heads, %d splits, %d chosen of a %s cache: %d keys", name, heads, splits, most, cache, n), got[at:at+heads*v], want[at:at+heads*v], 1e-2)
		}
	}
	near("wide", compute(func() (*Kernel, error) { return bindWide(g, p, partial) }))
	if p.Page = page; paired(p) {
		near("in clusters", compute(func() (*Kernel, error) { return New(g.Loader, p, partial) }))
	}
}

func bindWide(g *gputest.GPU, p Problem, partial driver.Ptr) (*Kernel, error) {
	return bind(g.Loader, p, partial, "attention/latent/latent_sm90", "latent_wide", wideThreads, wideShared)
}

// BenchmarkDecode is DeepSeek-V3's attention: 128 heads of 576 and 512 over caches of pages of 64, and once of 16; of sparse ones 2048 keys are chosen of each row.
func BenchmarkDecode(b *testing.B) {
	type step struct{ page, seqs, length, most, heads int }
	eight := []step{{64, 128, 4096, 0, 128}, {64, 128, 4096, 0, 16}, {64, 16, 4096, 0, 128}, {64, 128, 32768, 2048, 128}}
	for _, c := range []struct {
		cache graph.Type
		steps []step
	}{
		{graph.BF16, []step{
			{64, 1, 4096, 0, 128}, {64, 1, 32768, 0, 128}, {64, 16, 4096, 0, 128}, {64, 64, 4096, 0, 128}, {64, 128, 4096, 0, 128}, {64, 128, 4096, 0, 64}, {64, 128, 4096, 0, 16},
			{64, 128, 32768, 0, 128}, {64, 128, 32768, 2048, 128}, {64, 16, 32768, 0, 128}, {64, 16, 32768, 2048, 128}, {16, 128, 4096, 0, 128},
		}},
		{graph.F8, eight}, {graph.I8, eight},
	} {
		b.Run(c.cache.String(), func(b *testing.B) {
			gputest.Run(b, func(g *gputest.GPU) {
				for _, s := range c.steps {
					g.Scope(func() { benchmark(g, s.page, s.seqs, s.length, s.most, s.heads, c.cache) })
				}
			})
		})
	}
}

func benchmark(g *gputest.GPU, page, seqs, length, most, heads int, cache graph.Type) {
	const k, v = 576, 512
	step, _ := g.Step(gputest.Workload{Seqs: seqs, Length: length, New: 1, Page: page})
	var rowSeq []int32
	for s := range seqs {
		rowSeq = append(rowSeq, int32(s))
	}
	step.RowSeq = g.Ints(rowSeq...)
	p := Problem{Q: g.Noise(seqs * heads * k * 2), Y: g.Poisoned(seqs * heads * v * 2), Heads: heads, KSize: k, VSize: v, Scale: 0.07, Type: cache, Most: most, Page: page}
	n := length
	if most > 0 {
		n = most
		var chosen []float32
		for range seqs {
			for i := range most {
				chosen = append(chosen, float32(i*(length/most)))
			}
		}
		p.Chosen = g.F32(chosen)
	}
	partial := g.Poisoned(int(PartialBytes(g.Loader.SMs(), seqs, p)))
	row := int(p.Type.RowBytes(k))
	if p.Type == graph.I8 {
		row += 4 // a scale
	}
	bytes := seqs * length * row
	copies := max(1, 256<<20/bytes+1)
	var set []*Kernel
	for range copies {
		p.Cache = g.Noise(bytes)
		kernel, err := New(g.Loader, p, partial)
		g.Must(err)
		set = append(set, kernel)
	}
	d := g.Time(func(run int) error { return set[run%copies].Launch(g.Stream, &step, 0, 0, seqs) }).Seconds()
	read, flops := float64(seqs*n*row), 2*float64(seqs*n)*float64(heads)*(k+v)
	fmt.Printf("latent decode %-4s %4d × %6d, %3d heads, top %4d: %9.1f µs  %5.2f TB/s  %6.1f TFLOP/s  %s\n", p.Type, seqs, length, heads, most, d*1e6, read/d/1e12, flops/d/1e12, g.Registers(set[0].attend))
}
