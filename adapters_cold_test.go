package ridge_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/convert"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights"
	"github.com/ridge-llm/ridge/weights/gguf"
)

// coldSettings is what BenchmarkColdAdapter measures; each comes from an environment variable, RIDGE_COLD_ and its name.
type coldSettings struct {
	model, shape, number, backend string
	threads, rank, neighbours     int
}

func coldFromEnv(b *testing.B) coldSettings {
	number := func(name string, otherwise int) int {
		text := os.Getenv("RIDGE_COLD_" + name)
		if text == "" {
			return otherwise
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			b.Fatal(err)
		}
		return n
	}
	return coldSettings{
		model: os.Getenv("RIDGE_COLD_MODEL"), shape: os.Getenv("RIDGE_COLD_SHAPE"), number: cmp.Or(os.Getenv("RIDGE_COLD_TYPE"), "Q4_0"), backend: os.Getenv("RIDGE_COLD_BACKEND"),
		threads: number("THREADS", 0), rank: number("RANK", 16), neighbours: number("NEIGHBOURS", 4),
	}
}

// BenchmarkColdAdapter: what an adapter that is neither on the device nor in host memory, but in the page cache, adds to the first token of its request, and to the gaps
// between the tokens of neighbours. Each turn asks, beside neighbours that decode, a request of an adapter that is in a slot and one of an adapter that is on disk.
//
//	RIDGE_COLD_SHAPE=llama-3.2-1b RIDGE_COLD_RANK=57 go test -run XXX -bench ColdAdapter -benchtime 40x .
func BenchmarkColdAdapter(b *testing.B) {
	s := coldFromEnv(b)
	const files, keep = 12, 4
	dir := b.TempDir()
	if s.shape != "" {
		format, err := convert.ParseType(s.number)
		if err != nil {
			b.Fatal(err)
		}
		s.model = filepath.Join(dir, "model.gguf")
		if _, err := convert.Dummy(b.Context(), s.shape, s.model, convert.Options{Type: format}); err != nil {
			b.Fatal(err)
		}
	}
	size := writeRandomAdapters(b, s.model, dir, s.rank, files)
	m, err := ridge.Load(s.model, ridge.Options{Backend: s.backend, Threads: s.threads, Context: 2048, Parallel: s.neighbours + 2, MaxLoRAs: keep, MaxLoRARank: s.rank, MaxCPULoRAs: keep, Warm: true})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	for i := range files {
		if err := m.LoadAdapter(fmt.Sprint(i), filepath.Join(dir, fmt.Sprint(i)), false); err != nil {
			b.Fatal(err)
		}
	}
	var watch watch
	ctx, stop := context.WithCancel(b.Context())
	defer watch.running.Wait()
	defer stop()
	for i := range s.neighbours {
		watch.neighbour(ctx, b, m, int32(i))
	}
	n := 0
	ask := func(adapter string) time.Duration {
		n++
		time.Sleep(20 * time.Millisecond)
		p := ridge.Greedy()
		p.MaxTokens, p.IgnoreEnd, p.Adapters = 1, true, []ridge.UseAdapter{{Name: adapter, Scale: 1}}
		began := time.Now()
		answers, err := m.GenerateMany(b.Context(), promptOf(m, int32(1000+n), 16), []ridge.Params{p})
		if err != nil {
			b.Fatal(err)
		}
		for _, err := range answers[0] {
			if err != nil {
				b.Fatal(err)
			}
		}
		watch.note(adapter != "0", began)
		return time.Since(began)
	}
	for i := range files { // each is read once, and kernels and prices are there
		ask(fmt.Sprint(i))
		ask("0")
	}
	watch.reset()
	var warm, cold []time.Duration
	b.ResetTimer()
	for i := range b.N {
		warm = append(warm, ask("0"))
		cold = append(cold, ask(fmt.Sprint(1+i%(files-1))))
	}
	b.StopTimer()
	ms := func(d time.Duration) float64 { return d.Seconds() * 1e3 }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(size)/1e6, "adapter-MB")
	b.ReportMetric(ms(quantile(warm, 0.5)), "warm-ttft-ms")
	b.ReportMetric(ms(quantile(cold, 0.5)), "cold-ttft-ms")
	b.ReportMetric(ms(quantile(cold, 0.5)-quantile(warm, 0.5)), "added-ms")
	for i, name := range []string{"warm", "cold"} {
		b.ReportMetric(ms(quantile(watch.gaps[i], 0.5)), name+"-gap-p50-ms")
		b.ReportMetric(ms(quantile(watch.gaps[i], 0.99)), name+"-gap-p99-ms")
	}
}

// quantile is a quantile of some times; 0 where there are none.
func quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[int(q*float64(len(sorted)-1))]
}

// promptOf is n tokens that no other prompt begins with.
func promptOf(m *ridge.Model, number int32, n int) []int32 {
	r := rand.New(rand.NewPCG(uint64(number), 9))
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(r.IntN(m.Vocab()))
	}
	return ids
}

// watch is the neighbours of the requests that are measured.
type watch struct {
	running sync.WaitGroup
	mu      sync.Mutex
	last    []gap
	gaps    [2][]time.Duration // while a warm, and a cold adapter was waited for
}

// gap is the time between two tokens of a neighbour.
type gap struct{ from, to time.Time }

// neighbour runs requests without adapters, one after the other, until ctx is done.
func (w *watch) neighbour(ctx context.Context, b *testing.B, m *ridge.Model, number int32) {
	w.running.Go(func() {
		for ctx.Err() == nil {
			p := ridge.Greedy()
			p.MaxTokens, p.IgnoreEnd = 1500, true
			answers, err := m.GenerateMany(ctx, promptOf(m, number, 16), []ridge.Params{p})
			if err != nil {
				return
			}
			last := time.Time{}
			for _, err := range answers[0] {
				if err != nil {
					return
				}
				now := time.Now()
				if !last.IsZero() {
					w.mu.Lock()
					w.last = append(w.last, gap{last, now})
					w.mu.Unlock()
				}
				last = now
			}
		}
	})
}

// note counts the gaps that ended since a request began.
func (w *watch) note(cold bool, began time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := 0
	if cold {
		at = 1
	}
	for _, g := range w.last {
		if g.to.After(began) {
			w.gaps[at] = append(w.gaps[at], g.to.Sub(g.from))
		}
	}
	w.last = w.last[:0]
}

func (w *watch) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gaps = [2][]time.Duration{}
}

// writeRandomAdapters writes GGUF adapters in BF16 of every matrix of a model but its head, and returns the size of one.
func writeRandomAdapters(b *testing.B, path, dir string, rank, n int) (size int64) {
	open := modeldir.Builtin
	if path != "" {
		open = func() (*modeldir.Dir, error) { return modeldir.Open(path) }
	}
	d, err := open()
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	g, err := d.Model.Graph(model.Options{Act: graph.F32, Cache: graph.F32})
	if err != nil {
		b.Fatal(err)
	}
	if g, err = pass.LoRA(g, pass.Options{Adapters: pass.Adapters{Slots: 1, Rank: rank}}); err != nil {
		b.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 4))
	matrix := func(name string, rows, cols int) gguf.Output {
		data := make([]byte, 2*rows*cols)
		for i := 0; i < len(data); i += 2 {
			binary.LittleEndian.PutUint16(data[i:], uint16(math.Float32bits(r.Float32()/64)>>16))
		}
		size += int64(len(data))
		return gguf.Output{Name: name, Format: quant.BF16, Shape: []int{rows, cols}, Data: func(w io.Writer) error {
			_, err := w.Write(data)
			return err
		}}
	}
	var tensors []gguf.Output
	for _, w := range g.Weights {
		if w.Slots != nil && !w.Slots.Table && w.Tensor != "output.weight" {
			tensors = append(tensors, matrix(w.Tensor+".lora_a", rank, w.In.Len()), matrix(w.Tensor+".lora_b", w.Out.Len(), rank))
		}
	}
	meta := map[string]any{"general.architecture": d.Model.Arch.Name, "general.type": "adapter", "adapter.type": "lora", "adapter.lora.alpha": float32(rank)}
	for i := range n {
		err := weights.WriteFile(filepath.Join(dir, fmt.Sprint(i)), func(w io.Writer) error {
			return gguf.Write(w, []string{"general.architecture", "general.type", "adapter.type", "adapter.lora.alpha"}, meta, tensors)
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	return size
}
