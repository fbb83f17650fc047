package evaluate

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/backend/cpu"
	"github.com/ridge-llm/ridge/backend/ref"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/device"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights"
)

func counting(n int) (all []int32) {
	for i := range n {
		all = append(all, int32(i))
	}
	return all
}

func TestChunks(t *testing.T) {
	all, err := Chunks(counting(21), 8, 99)
	if err != nil || len(all) != 2 {
		t.Fatal(all, err)
	}
	if w := all[1]; !slices.Equal(w.Tokens, []int32{99, 9, 10, 11, 12, 13, 14, 15}) || w.Score != 5 {
		t.Errorf("the second part is %v", w)
	}
	if _, err := Chunks(counting(7), 8, -1); err == nil {
		t.Error("a text shorter than a part was taken")
	}
}

// TestStrided: every token but the first is scored, and once.
func TestStrided(t *testing.T) {
	for _, c := range []struct{ tokens, n, stride int }{{21, 8, 4}, {20, 8, 7}, {5, 8, 3}, {30, 7, 1}} {
		all, err := Strided(counting(c.tokens), c.n, c.stride)
		if err != nil {
			t.Fatal(err)
		}
		var scored []int32
		for _, w := range all {
			scored = append(scored, w.Tokens[w.Score:]...)
		}
		if !slices.Equal(scored, counting(c.tokens)[1:]) {
			t.Errorf("%v: scored are %v", c, scored)
		}
	}
	if _, err := Strided(counting(9), 4, 5); err == nil {
		t.Error("a stride that leaves tokens out was taken")
	}
}

const small = "../check/testdata/qwen2-tied"

// upstream is the ids and the mean loss of the first golden case by the logits that upstream computed.
func upstream(t *testing.T) (ids []int32, nll float64) {
	t.Helper()
	return upstreamOf(t, 0)
}

// upstreamOf is upstream of the case's first n tokens; 0: all.
func upstreamOf(t *testing.T, n int) (ids []int32, nll float64) {
	t.Helper()
	s, err := weights.Open(small + "/golden.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	info, raw, err := s.Raw("input_ids")
	if err != nil {
		t.Fatal(err)
	}
	logits, err := s.Tensor("logits")
	if err != nil {
		t.Fatal(err)
	}
	if n == 0 {
		n = info.Shape[1]
	}
	for i := range n {
		ids = append(ids, int32(binary.LittleEndian.Uint32(raw[4*i:])))
	}
	row := make([]float32, logits.Cols)
	for i, id := range ids[1:] {
		quant.Decode(quant.F32, row, logits.Row(i))
		sum := 0.0
		for _, x := range row {
			sum += math.Exp(float64(x))
		}
		nll += math.Log(sum) - float64(row[id])
	}
	return ids, nll / float64(len(ids)-1)
}

func open(t *testing.T, exact bool) *Model {
	t.Helper()
	dir, err := modeldir.Open(small)
	if err != nil {
		t.Fatal(err)
	}
	dev, err := cpu.New(cpu.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	m, err := Open(dir, dev, Options{Context: 64, Cache: graph.F32, Exact: exact})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close(); dev.Close() })
	return m
}

// TestPerplexity: the loss is the one of upstream's logits, and a model does not diverge from itself.
func TestPerplexity(t *testing.T) {
	ids, want := upstream(t)
	windows := []Window{{ids, 1}}
	calls := 0
	r, err := Perplexity(open(t, true), open(t, true), windows, nil, func(int, float64) { calls++ })
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(r.NLL-want) > 1e-4 || r.Tokens != len(ids)-1 || calls != 1 || math.Abs(r.Perplexity-math.Exp(want)) > 1e-3*math.Exp(want) {
		t.Errorf("%+v; the loss is %g upstream", r, want)
	}
	if a := r.Against; a.KL > 1e-9 || a.Top1 != 1 || math.Abs(a.Perplexity-r.Perplexity) > 1e-9 {
		t.Errorf("a model diverges from itself: %+v", a)
	}
}

// TestDivergence has a model beside the reference backend's, with the cache in half precision.
func TestDivergence(t *testing.T) {
	ids, _ := upstream(t)
	dir, err := modeldir.Open(small)
	if err != nil {
		t.Fatal(err)
	}
	dev := ref.New()
	m, err := Open(dir, dev, Options{Context: 64, Cache: graph.F16})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	r, err := Perplexity(m, open(t, true), []Window{{ids, 2}, {ids, 3}}, nil, func(int, float64) {})
	if err != nil {
		t.Fatal(err)
	}
	if a := r.Against; a.KL <= 0 || a.KL > 1e-4 || a.KLMax < a.KL || r.Tokens != 2*len(ids)-5 {
		t.Errorf("%+v, %+v", r, a)
	}
}

// TestCacheTypes: keys and values in fewer bits cost a little, on every device that has them.
func TestCacheTypes(t *testing.T) {
	ids, want := upstream(t)
	for _, c := range []struct {
		backend string
		cache   graph.Type
		most    float64 // of the loss that is more or less
	}{{"cpu", graph.F16, 1e-3}, {"cpu", graph.BF16, 1e-2}, {"cpu", graph.I8, 1e-2}, {"ref", graph.I8, 1e-2}, {"cpu", graph.I4, 4e-2}, {"ref", graph.I4, 4e-2}} {
		dir, err := modeldir.Open(small)
		if err != nil {
			t.Fatal(err)
		}
		dev, err := device.Open(device.Options{Backend: c.backend, Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		m, err := Open(dir, dev, Options{Context: 64, Cache: c.cache, Exact: true})
		if err != nil {
			t.Fatal(err)
		}
		// Twice: a step finds the memory as the one before has left it.
		r, err := Perplexity(m, nil, []Window{{ids, 1}, {ids, 1}}, nil, func(int, float64) {})
		m.Close()
		dev.Close()
		if err != nil || math.Abs(r.NLL-want) > c.most {
			t.Errorf("%s, %s: %+v, %v; %g upstream", c.backend, c.cache, r, err, want)
		}
	}
}
