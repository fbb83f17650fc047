package compile_test

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/ref"
	"github.com/ridge-llm/ridge/comm"
	"github.com/ridge-llm/ridge/comm/local"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/internal/testkit"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
)

// counter counts the bytes that a rank sends.
type counter struct {
	comm.Communicator
	bytes atomic.Int64
}

func (c *counter) Send(to int, x []float32) error {
	c.bytes.Add(4 * int64(len(x)))
	return c.Communicator.Send(to, x)
}

// spread is a small model on devices that divide rows, each a program by itself.
type spread struct {
	parts    []*graph.Graph
	programs []*compile.Program
	devices  []*ref.Device
	sent     []*counter
}

func spreadRows(t *testing.T, name string, l pass.Layout, lim backend.Limits) *spread {
	t.Helper()
	dir, err := modeldir.Open("../internal/check/testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	whole, err := dir.Model.Graph(model.Options{Act: graph.F32, Cache: graph.F16})
	if err != nil {
		t.Fatal(err)
	}
	l.Tensor, l.Pipeline, l.Data = 1, 1, 1
	s := &spread{}
	for i, peers := range local.New(l.Sequence) {
		part, err := pass.Run(whole, pass.All, pass.Options{Layout: l, Rank: pass.Rank{Sequence: i}})
		if err != nil {
			t.Fatal(err)
		}
		dev, sent := ref.New(), &counter{Communicator: peers}
		p, err := compile.CompileRank(part, whole, dev, dir, lim, compile.Ranks{Sequence: sent})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		s.parts, s.programs, s.devices, s.sent = append(s.parts, part), append(s.programs, p), append(s.devices, dev), append(s.sent, sent)
	}
	return s
}

// run computes a step on all devices.
func (s *spread) run(t *testing.T, b *backend.Batch) {
	t.Helper()
	errs := make([]error, len(s.programs))
	var all sync.WaitGroup
	for i, p := range s.programs {
		s.sent[i].bytes.Store(0)
		s.devices[i].Counted()
		all.Go(func() { errs[i] = p.Run(b) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// TestSequenceTraffic: devices that divide rows send as many bytes as the graph says, of prompts, whose keys and values go round, of prompts behind long ones, of which queries do, and of
// decoding; and each writes an equal part of keys and values. Lengths are those that the devices divide equally.
func TestSequenceTraffic(t *testing.T) {
	const ranks, page = 4, 16 * 4
	lim := backend.Limits{Tokens: 512, Seqs: 4, Logits: 4, PageSize: page, SeqPages: 24, Pages: 96}
	for name, c := range map[string]struct {
		method string
		steps  testkit.Steps
	}{
		"ring": {pass.Ring, testkit.Steps{{512}}}, "a chunk in the ring": {pass.Ring, testkit.Steps{{512}, {512}}}, "queries": {pass.Ring, testkit.Steps{{512}, {512}, {64}}},
		"several": {pass.Ring, testkit.Steps{{128, 256}, {64, 64}}}, "ulysses": {pass.Ulysses, testkit.Steps{{512}, {64}}}, "ulysses decoding": {pass.Ulysses, testkit.Steps{{64, 64, 64, 64}, {1, 1, 1, 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			lim := lim
			if c.method == pass.Ulysses {
				lim.PageSize, lim.SeqPages, lim.Pages = 16, 96, 384
			}
			s := spreadRows(t, "llama-headdim", pass.Layout{Sequence: ranks, Method: c.method}, lim)
			for _, b := range testkit.Sequence(c.steps, lim, 90, false, 1) {
				b.LogitsIndices = b.LogitsIndices[:0]
				for q := range b.Seqs() {
					b.LogitsIndices = append(b.LogitsIndices, b.QStart[q+1]-1)
				}
				s.run(t, b)
				var step graph.Step
				b.Step(&step)
				var sent, said, written int64
				for i, part := range s.parts {
					work := part.Work(&step)
					for _, n := range part.Nodes { // the last rows may all be of one device
						if _, ok := n.Op.(graph.GatherSelected); ok {
							work.LinkBytes -= n.Op.Work(n, &step).LinkBytes
						}
					}
					sent, said = sent+s.sent[i].bytes.Load(), said+work.LinkBytes
					wrote := s.devices[i].Counted().CacheWrite
					if want := work.CacheWrite; wrote != want {
						t.Errorf("device %d writes %d bytes of keys and values, its graph says %d", i, wrote, want)
					}
					written += wrote
				}
				for _, r := range b.LogitsIndices { // rows that the first device has not
					if c.method == pass.Ring && ownerOf(b, int(r), ranks, page) > 0 || c.method == pass.Ulysses && int(r)*ranks/len(b.Tokens) > 0 {
						said += selectedBytes(s.parts[0])
					}
				}
				if sent != said {
					t.Errorf("a step of %v tokens sends %d bytes, and its graph says %d", b.QStart, sent, said)
				}
				if all := int64(len(b.Tokens)) * rowBytes(s.parts) / int64(len(s.parts)); c.method == pass.Ring && written != all {
					t.Errorf("%d bytes of keys and values are written, and all rows have %d", written, all)
				}
			}
		})
	}
}

// ownerOf is which device has a row of a batch, by the definition: blocks from the front and from the back of each page.
func ownerOf(b *backend.Batch, row, ranks, page int) int {
	for q := range b.Seqs() {
		if row < int(b.QStart[q+1]) {
			block := (b.Past(q) + row - int(b.QStart[q])) % page / (page / ranks / 2)
			return min(block, 2*ranks-1-block)
		}
	}
	return -1
}

// selectedBytes is the size of a row that is selected for logits.
func selectedBytes(g *graph.Graph) int64 {
	for _, n := range g.Nodes {
		if _, ok := n.Op.(graph.GatherSelected); ok {
			return n.In[0].RowBytes()
		}
	}
	return 0
}

// rowBytes is what a token takes in the caches of all devices' graphs.
func rowBytes(parts []*graph.Graph) (n int64) {
	for _, g := range parts {
		for _, c := range g.Caches {
			n += c.RowBytes()
		}
	}
	return n
}

// TestSequenceCache: a prompt of 65,536 tokens over four devices takes a quarter of the cache on each that it takes on one, by either method.
func TestSequenceCache(t *testing.T) {
	const tokens, ranks = 1 << 16, 4
	lim := backend.Limits{Tokens: 64, Seqs: 1, Logits: 1, PageSize: 16, SeqPages: tokens / 16, Pages: tokens / 16}
	dir, err := modeldir.Open("../internal/check/testdata/llama-headdim")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	whole, err := dir.Model.Graph(model.Options{Act: graph.F32, Cache: graph.F16})
	if err != nil {
		t.Fatal(err)
	}
	one, err := compile.Compile(whole, ref.New(), dir, lim)
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	for _, method := range []string{pass.Ring, pass.Ulysses} {
		l := pass.Layout{Sequence: ranks, Method: method}
		lim := lim
		lim.Divide(l.PageRanks())
		lim.Pages = lim.SeqPages
		if lim.SeqPages*lim.PageSize != tokens {
			t.Errorf("%s: %d pages of %d tokens", method, lim.SeqPages, lim.PageSize)
		}
		for i, p := range spreadRows(t, "llama-headdim", l, lim).programs {
			if got, want := p.Memory().Caches, one.Memory().Caches/ranks; got != want {
				t.Errorf("%s: device %d has %d bytes of cache, and a quarter is %d", method, i, got, want)
			}
		}
	}
}

// TestSequenceBatch: rows of which a device has none, sequences that begin in different pages, and a step of one token: the logits are those of one device.
func TestSequenceBatch(t *testing.T) {
	lim := backend.Limits{Tokens: 200, Seqs: 4, Logits: 200, PageSize: 16, SeqPages: 16, Pages: 64}
	dir, err := modeldir.Open("../internal/check/testdata/llama-headdim")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	whole, err := dir.Model.Graph(model.Options{Act: graph.F32, Cache: graph.F16})
	if err != nil {
		t.Fatal(err)
	}
	one, err := compile.Compile(whole, ref.New(), dir, lim)
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	steps := testkit.Steps{{100, 1}, {1, 1}, {1, 40}, {3, 2}, {1}}
	want := testkit.Sequence(steps, lim, 90, true, 3)
	for method, ranks := range map[string]int{pass.Ring: 3, pass.Ulysses: 2} {
		l := pass.Layout{Sequence: ranks, Method: method}
		lim := lim
		lim.Divide(l.PageRanks())
		lim.Pages = lim.Seqs * lim.SeqPages
		s := spreadRows(t, "llama-headdim", l, lim)
		for i, b := range testkit.Sequence(steps, lim, 90, true, 3) {
			copy(b.Tokens, want[i].Tokens) // other pages are other draws
			s.run(t, b)
			if err := one.Run(want[i]); err != nil {
				t.Fatal(err)
			}
			n := len(b.LogitsIndices)
			a, c := make([]float32, n*one.Vocab()), make([]float32, n*one.Vocab())
			if err := errors.Join(s.programs[0].Logits(a, 0, n), one.Logits(c, 0, n)); err != nil {
				t.Fatal(err)
			}
			if worst := testkit.WorstError(a, c); worst > 1e-4 || math.IsNaN(worst) {
				t.Errorf("%s, step %d: logits differ by %g", method, i, worst)
			}
		}
	}
}
