package ridge

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

func axis(n int) graph.Axis { return graph.Axis{Count: n, Size: 1} }

// metered is a device of which only the memory is asked.
type metered struct {
	backend.Device
	free, total int64
}

func (m metered) Memory() (free, total int64, err error) { return m.free, m.total, nil }
func (m metered) Info() backend.Info                     { return backend.Info{Name: "metered"} }

// swapper can move pages to host memory.
type swapper struct {
	unmetered
	backend.Swapper
}

// unmetered does not say how much memory it has.
type unmetered struct{ backend.Device }

func (unmetered) Info() backend.Info { return backend.Info{Name: "unmetered"} }

// TestSetPages: a page of 16 tokens of this cache takes 4 KiB, a request of the whole context 64 pages, 256 KiB; the
// weights take 1 MiB.
func TestSetPages(t *testing.T) {
	const kib, mib, gib = 1 << 10, 1 << 20, 1 << 30
	for _, c := range []struct {
		name   string
		budget Budget
		dev    backend.Device
		pages  int
		err    string
	}{
		{"all requests", Budget{}, metered{free: gib}, 4 * 64, ""},
		{"no meter", Budget{}, unmetered{}, 4 * 64, ""},
		{"little is free", Budget{}, metered{free: 1*mib + 400*kib}, 90, ""},
		{"too little is free", Budget{}, metered{free: 1*mib + 100*kib}, 0, "takes 64 pages of the cache, 256.0 KiB in all, and there are 90.0 KiB for it"},
		{"nothing is free for a request", Budget{}, metered{free: 1*mib + 2*kib}, 0, "there are 1.8 KiB for it"},
		{"the weights do not fit", Budget{}, metered{free: 900 * kib, total: 2 * mib}, 0, "weights take 1.0 MiB, and of the 2.0 MiB of device metered 900.0 KiB are free; stop what else uses it, or take a smaller model"},
		{"they would if the device were free", Budget{}, metered{free: 100 * kib, total: 2 * mib}, 0, "100.0 KiB are free; stop what else uses it, or take a smaller model"},
		{"they never fit", Budget{}, metered{free: 100 * kib}, 0, "and of the 0 B of device metered 100.0 KiB are free"},
		{"bytes", Budget{Bytes: 8 * mib}, unmetered{}, 2048, ""},
		{"too few bytes", Budget{Bytes: 255 * kib}, unmetered{}, 0, "256.0 KiB in all, and there are 255.0 KiB for it; raise --kv-memory"},
		{"hardly any bytes", Budget{Bytes: 400}, unmetered{}, 0, "there are 400 B for it; raise --kv-memory"},
		{"as many bytes as are free", Budget{Bytes: 8 * mib}, metered{free: 9 * mib}, 2048, ""},
		{"more bytes than are free", Budget{Bytes: 400 * gib}, metered{free: 9 * mib, total: gib}, 0, "the cache is to take 400.00 GiB (--kv-memory), and of the 1.00 GiB of device metered 8.0 MiB are free beside the weights; give less, a part of that as 50%, or leave it out"},
		{"a part", Budget{Part: 0.5}, metered{free: 9 * mib}, 1024, ""},
		{"a part of an unknown total", Budget{Part: 0.5}, unmetered{}, 0, "device unmetered does not say"},
		{"a utilization", Budget{Total: 0.5}, metered{free: 7 * gib, total: 8 * gib}, (4*gib - gib - gib - mib) / (4 * kib), ""},
		{"a utilization that others use up", Budget{Total: 0.5}, metered{free: 2 * gib, total: 8 * gib}, 0, "nothing is left for the cache; raise the part, stop what else uses it, or take fewer bits a weight"},
		{"a utilization that no part is enough for", Budget{Total: 0.5}, metered{free: gib, total: 8 * gib}, 0, "nothing is left for the cache; stop what else uses it, or"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := &graph.Graph{
				Caches:  []*graph.Cache{{K: axis(32), V: axis(32), Type: graph.F32}},
				Weights: []*graph.Weight{{Out: axis(512), In: axis(512), Format: quant.F32}},
			}
			lim := backend.Limits{Seqs: 4, PageSize: 16, SeqPages: 64}
			err := Options{KV: c.budget}.setPages(&lim, c.dev, []*graph.Graph{g}, g, 0)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("%v; it should say %q", err, c.err)
				}
				return
			}
			if err != nil || lim.Pages != c.pages {
				t.Errorf("%d pages (%v), not %d", lim.Pages, err, c.pages)
			}
		})
	}
	if (Options{Backend: "cuda", Deterministic: true}).check() == nil {
		t.Error("a GPU was asked for what it cannot do")
	}
	for swap, want := range map[int64]string{-1: "Swap (--swap-space) is -1", 100: "a page of the cache takes 4.0 KiB", 1 << 20: ""} {
		lim := backend.Limits{Seqs: 4, PageSize: 16, SeqPages: 64}
		g := &graph.Graph{Caches: []*graph.Cache{{K: axis(32), V: axis(32), Type: graph.F32}}}
		o := Options{Swap: swap}
		err := cmp.Or(o.check(), o.setPages(&lim, swapper{}, []*graph.Graph{g}, g, 0))
		if want == "" && (err != nil || lim.SwapPages != 256) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("Swap %d: %d pages, %v", swap, lim.SwapPages, err)
		}
	}
	cached := &graph.Graph{Caches: []*graph.Cache{{K: axis(32), Type: graph.F32}}}
	if err := (Options{Swap: 1 << 20}).setPages(&backend.Limits{PageSize: 16}, unmetered{}, []*graph.Graph{cached}, cached, 0); err == nil {
		t.Error("a device that cannot swap was given swap space")
	}
	for _, b := range []Budget{{Bytes: 5, Part: 0.5}, {Bytes: -1}, {Part: 1.1}, {Total: -0.1}} {
		if (Options{KV: b}).check() == nil {
			t.Errorf("%+v was taken", b)
		}
	}
}

// gpu is a device with memory of its own, on which adapters have room.
type gpu struct{ metered }

func (gpu) Info() backend.Info { return backend.Info{Name: "gpu", Act: graph.BF16} }

// TestAdaptersMemory: what is given for the cache in bytes is for adapters too: here two slots of rank 16 take 64 KiB.
func TestAdaptersMemory(t *testing.T) {
	const kib = 1 << 10
	for given, want := range map[int64]string{512 * kib: "", 300 * kib: "256.0 KiB in all, and there are 236.0 KiB", 60 * kib: "the adapters alone take 64.0 KiB; raise it, or lower --max-loras or --max-lora-rank"} {
		matrix := &graph.Weight{Out: axis(512), In: axis(512), Format: quant.F32}
		g := &graph.Graph{
			Caches:  []*graph.Cache{{K: axis(32), V: axis(32), Type: graph.F32}},
			Weights: []*graph.Weight{matrix, {Out: axis(512), In: axis(512), Slots: &graph.Slots{Of: matrix, Count: 2, Rank: 16}}},
		}
		lim := backend.Limits{Seqs: 4, PageSize: 16, SeqPages: 64}
		err := Options{KV: Budget{Bytes: given}, MaxLoRAs: 2, MaxLoRARank: 16}.setPages(&lim, gpu{metered{free: 1 << 30, total: 1 << 30}}, []*graph.Graph{g}, g, 0)
		if want == "" && (err != nil || lim.Pages != 112) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d bytes: %d pages, %v", given, lim.Pages, err)
		}
	}
}

// TestWindowedPages: the budget is divided so that a group with a window has what steps can need, and as much again, and never more
// pages than the group that keeps everything. Of a page, the one takes 1 KiB here and the other 3 KiB.
func TestWindowedPages(t *testing.T) {
	const kib = 1 << 10
	full := &graph.Cache{K: axis(8), V: axis(8), Type: graph.F32, Group: 1}
	window := &graph.Cache{K: axis(24), V: axis(24), Type: graph.F32, Window: 100}
	both := []*graph.Cache{window, full}
	// 4 sequences hold 8 pages of a window of 100 each and one more in a step, in which 256 tokens are 16 pages.
	const need = 4*(8+1) + 16
	for _, c := range []struct {
		name    string
		caches  []*graph.Cache
		context int // pages
		budget  int64
		want    []backend.GroupLimits
		pages   int
	}{
		{"no budget", both, 64, 0, []backend.GroupLimits{{Window: 100, Pages: 2 * need}, {Pages: 4 * 64}}, 4 * 64},
		{"more than requests can fill", both, 64, 1000*kib + 2*need*3*kib, []backend.GroupLimits{{Window: 100, Pages: 2 * need}, {Pages: 1000}}, 1000},
		{"a page of each", both, 64, 100 * 4 * kib, []backend.GroupLimits{{Window: 100, Pages: 100}, {Pages: 100}}, 100},
		{"a context and no prefix cache", both, 64, 64*kib + need*3*kib, []backend.GroupLimits{{Window: 100, Pages: need}, {Pages: 64}}, 64},
		{"a window as long as the context", both, 6, 0, nil, 24},
		{"nothing but windows", []*graph.Cache{{K: axis(24), V: axis(24), Type: graph.F32, Window: 100}}, 64, 0, []backend.GroupLimits{{Window: 100, Pages: 2 * need}}, 2 * need},
		{"nothing but windows, in little memory", []*graph.Cache{{K: axis(24), V: axis(24), Type: graph.F32, Window: 100}}, 64, 70 * 3 * kib, []backend.GroupLimits{{Window: 100, Pages: 70}}, 70},
	} {
		t.Run(c.name, func(t *testing.T) {
			lim := backend.Limits{Tokens: 256, Seqs: 4, PageSize: 16, SeqPages: c.context}
			g := &graph.Graph{Caches: c.caches}
			if err := (Options{KV: Budget{Bytes: c.budget}}).setPages(&lim, unmetered{}, []*graph.Graph{g}, g, 0); err != nil {
				t.Fatal(err)
			}
			if lim.Pages != c.pages || !slices.Equal(lim.Groups, c.want) {
				t.Errorf("%d pages, of the groups %+v; want %d and %+v", lim.Pages, lim.Groups, c.pages, c.want)
			}
		})
	}
}

// TestReserved: what other models of a Runtime have been promised is not free, though they may not have touched it.
func TestReserved(t *testing.T) {
	const kib, mib = 1 << 10, 1 << 20
	g := &graph.Graph{
		Caches:  []*graph.Cache{{K: axis(32), V: axis(32), Type: graph.F32}},
		Weights: []*graph.Weight{{Out: axis(512), In: axis(512), Format: quant.F32}},
	}
	for _, c := range []struct{ reserved, pages int64 }{{0, 7 * mib / 2 / (4 * kib)}, {4 * mib, 3 * mib / 2 / (4 * kib)}} {
		lim := backend.Limits{Seqs: 4, PageSize: 16, SeqPages: 64}
		err := Options{KV: Budget{Part: 0.5}}.setPages(&lim, metered{free: 8 * mib, total: 8 * mib}, []*graph.Graph{g}, g, c.reserved)
		if err != nil || int64(lim.Pages) != c.pages {
			t.Errorf("with %d bytes promised to others: %d pages (%v), not %d", c.reserved, lim.Pages, err, c.pages)
		}
	}
}

// TestRuntimeReserves: a Runtime knows what its models were promised, until they are closed.
func TestRuntimeReserves(t *testing.T) {
	r, err := NewRuntime(RuntimeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var models []*Model
	want := int64(0)
	for range 2 {
		m, err := r.Load("", Options{Context: 64, Parallel: 1})
		if err != nil {
			t.Fatal(err)
		}
		weights, cache, activations := m.Memory()
		want += weights + cache + activations
		models = append(models, m)
		if got := r.reserved["cpu"]; got != want {
			t.Errorf("%d bytes are promised to %d models, not %d", got, len(models), want)
		}
	}
	for _, m := range models {
		m.Close()
	}
	if got := r.reserved["cpu"]; got != 0 {
		t.Errorf("%d bytes are promised to models that are closed", got)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}
