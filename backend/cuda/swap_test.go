package cuda

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/ptx"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/testkit"
)

// TestSwap: a cache that was away in host memory between steps holds what it held. With -short, as the sanitizer has it, in a ninth of the cases.
func TestSwap(t *testing.T) {
	d := gpu(t, 0)
	for i, c := range testkit.Cases() {
		if c.Op != "Attention" || testing.Short() && i%9 != 0 {
			continue
		}
		g, w, lim, batches, err := c.Build(graph.BF16, []graph.Type{graph.BF16, graph.I8}[i%2], uint64(i))
		if err != nil {
			t.Fatal(err)
		}
		if leftOut(g) != "" {
			continue
		}
		want, err := testkit.Outputs(g, d, w, lim, batches)
		if errors.Is(err, ptx.ErrMissing) && os.Getenv("CI") != "true" {
			t.Skip("the source of one of its kernels is newer than the PTX; make ptx rebuilds that")
		}
		if err != nil {
			t.Fatal(err)
		}
		got, err := testkit.SwappedOutputs(g, d, w, lim, batches)
		if err != nil {
			t.Fatal(err)
		}
		for step := range want {
			if !slices.Equal(got[step], want[step]) {
				t.Errorf("%s: step %d differs after swapping", c.Name, step)
			}
		}
	}
}

// TestTableInHostMemory: a table that is only looked up gives the same rows from host memory.
func TestTableInHostMemory(t *testing.T) {
	d := gpu(t, 0)
	for i, c := range testkit.Cases() {
		if !strings.HasPrefix(c.Name, "Embed/known") {
			continue
		}
		g, w, lim, batches, err := c.Build(graph.BF16, graph.BF16, uint64(i))
		if err != nil {
			t.Fatal(err)
		}
		var got [2][][]float32
		for where, from := range []int64{graph.HostTable, 1} {
			d.hostTable = from
			if got[where], err = testkit.Outputs(g, d, w, lim, batches); errors.Is(err, ptx.ErrMissing) && os.Getenv("CI") != "true" {
				t.Skip("the source of one of its kernels is newer than the PTX; make ptx rebuilds that")
			} else if err != nil {
				t.Fatal(err)
			}
		}
		for step := range batches {
			if !slices.Equal(got[0][step], got[1][step]) {
				t.Errorf("%s: step %d differs where the table is in host memory", c.Name, step)
			}
		}
	}
}

// TestWhichStepsWait needs no GPU: a step waits for the parts of the pages that it writes to or looks at.
func TestWhichStepsWait(t *testing.T) {
	var out, in partOf
	out.note(3, 1)
	in.note(5, 2)
	out.note(7, 3)
	for page, want := range map[int][2]int{0: {0, 0}, 3: {1, 0}, 5: {0, 2}, 7: {3, 0}, 900: {0, 0}} {
		if got := [2]int{out.page(page), in.page(page)}; got != want {
			t.Errorf("page %d: parts %v, want %v", page, got, want)
		}
	}
	m := func(src, dst int64) backend.Move {
		return backend.Move{Src: backend.Buffer{Off: src, Len: 16}, Dst: backend.Buffer{Off: dst, Len: 16}}
	}
	for _, c := range []struct {
		moves []backend.Move
		want  int
	}{
		{[]backend.Move{m(0, 32)}, 1}, {[]backend.Move{m(0, 32), m(16, 48), m(32, 64)}, 3}, {[]backend.Move{m(0, 32), m(16, 64)}, 1},
		{[]backend.Move{m(32, 0), m(16, 16)}, 1},
	} {
		if got := neighbours(c.moves); got != c.want {
			t.Errorf("%v are %d copies in one, want %d", c.moves, got, c.want)
		}
	}
}

// BenchmarkSwap moves 4,096 tokens of Llama-3.1-8B's cache, 512 MiB, out and in, from pages in order and from pages in disorder.
func BenchmarkSwap(b *testing.B) {
	if _, err := Devices(); err != nil {
		b.Skipf("no GPU to measure: %v", err)
	}
	d, err := New(Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	const caches, pages, page = 32, 256, 64 << 10
	var device, host []backend.Buffer
	for range caches {
		x, err := d.Alloc(2*pages*page, "the benchmark")
		if err != nil {
			b.Fatal(err)
		}
		y, err := d.AllocHost(pages*page, "the benchmark")
		if err != nil {
			b.Fatal(err)
		}
		device, host = append(device, x), append(host, y)
	}
	for _, stride := range []int64{1, 2} {
		var out, in []backend.Move
		for c := range caches {
			for p := range int64(pages) {
				m := backend.Move{Src: device[c].Slice(p*stride*page, page), Dst: host[c].Slice(p*page, page)}
				out, in = append(out, m), append(in, backend.Move{Src: m.Dst, Dst: m.Src})
			}
		}
		for _, way := range []struct {
			name string
			run  func([]backend.Move) error
			list []backend.Move
		}{{"out", d.SwapOut, out}, {"in", d.SwapIn, in}} {
			var best, queued time.Duration
			for range 3 {
				start := time.Now()
				if err := way.run(way.list); err != nil {
					b.Fatal(err)
				}
				q := time.Since(start)
				if err := d.do(d.swap.stream.Synchronize); err != nil {
					b.Fatal(err)
				}
				if took := time.Since(start); best == 0 || took < best {
					best, queued = took, q
				}
			}
			fmt.Printf("swap %s, every page in %d: %.1f ms, %.1f GB/s, the host had it queued after %.1f ms\n", way.name, stride, best.Seconds()*1e3,
				caches*pages*page/best.Seconds()/1e9, queued.Seconds()*1e3)
		}
	}
}
