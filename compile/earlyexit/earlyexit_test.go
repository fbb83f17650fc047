package earlyexit

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu"
	"github.com/ridge-llm/ridge/backend/ref"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
)

var limits = backend.Limits{Tokens: 16, Seqs: 16, Logits: 16, PageSize: 16, SeqPages: 3, Pages: 6}

// opened is the built-in model on a device, with exits.
type opened struct {
	dir *modeldir.Dir
	*Runner
}

func open(t *testing.T, dev backend.Device, exits ...int) *opened {
	t.Helper()
	dir, err := modeldir.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	info := dev.Info()
	whole, err := dir.Model.Graph(model.Options{Act: info.Act, Cache: graph.F32})
	if err != nil {
		t.Fatal(err)
	}
	passes := pass.Options{Kernels: compile.Kernels{Device: dev}}
	fused := func(g *graph.Graph) *graph.Graph {
		if g, err = pass.Run(g, pass.All, passes); err != nil {
			t.Fatal(err)
		}
		return g
	}
	prog, err := compile.Compile(fused(whole), dev, dir, limits)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Layers: exits, Threshold: 1}
	graphs, err := o.Graphs(whole)
	if err != nil {
		t.Fatal(err)
	}
	var parts []*compile.Program
	for _, g := range graphs {
		part, err := prog.Part(fused(g), dir)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, part)
	}
	r, err := New(prog, parts, o, func() {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); dir.Close() })
	return &opened{dir, r}
}

// text is tokens of a sequence.
func text(seed, n int) (all []int32) {
	for i := range n {
		all = append(all, int32(3+(seed*31+i*i*7)%400))
	}
	return all
}

// rows computes tokens [from, to) of two texts side by side, and returns their logits.
func (x *opened) rows(t *testing.T, from, to int) []float32 {
	t.Helper()
	b := batchOf(from, to)
	if err := b.Check(limits, x.Ids()); err != nil {
		t.Fatal(err)
	}
	if err := x.Run(b); err != nil {
		t.Fatal(err)
	}
	logits, err := x.Rows(nil, len(b.Tokens))
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(logits)
}

// TestSegments: layers computed segment by segment give the logits of the program, and count as tokens that left behind the last layer.
func TestSegments(t *testing.T) {
	onCPU, err := cpu.New(cpu.Options{Threads: 2, Deterministic: true})
	if err != nil {
		t.Fatal(err)
	}
	defer onCPU.Close()
	for dev, most := range map[backend.Device]float64{ref.New(): 0, onCPU: 1e-4} { // norms there are summed with what comes before them
		x := open(t, dev, 1, 3)
		var got, want []float32
		for from := 0; from < 24; from += 6 {
			got = append(got, x.rows(t, from, from+6)...)
		}
		if n := x.Exits(); n[0]+n[1] != 0 || n[2] != 48 || len(x.Layers()) != 3 || x.Layers()[2] != x.Program.Graph.Layers() {
			t.Errorf("%s: %v tokens left after layers %v", dev.Info().Name, n, x.Layers())
		}
		y := open(t, dev, 2)
		for from := 0; from < 24; from += 6 {
			b, together := &backend.Batch{}, batchOf(from, from+6)
			pick(b, together, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}) // each by itself
			if err := y.Program.Run(b); err != nil {
				t.Fatal(err)
			}
			rows, err := y.Program.Rows(make([]float32, len(b.Tokens)*y.Vocab()), len(b.Tokens))
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, rows...)
		}
		if difference(got, want) > most {
			t.Errorf("%s: logits of segments differ from those of the program by %g", dev.Info().Name, difference(got, want))
		}
	}
}

// batchOf is a step of tokens [from, to) of two texts.
func batchOf(from, to int) *backend.Batch {
	b := &backend.Batch{}
	b.Reset(1, limits.SeqPages)
	for s := range 2 {
		b.AppendSeq(limits, s, from, text(s, 40)[from:to])
	}
	for i := range b.Tokens {
		b.LogitsIndices = append(b.LogitsIndices, int32(i))
	}
	return b
}

// TestFilledCaches: what tokens that leave before the last layer fill its cache with is what that layer itself would write, so later tokens that go through all
// layers have the logits that they have without exits. Tokens that leave have the logits of the layers so far.
func TestFilledCaches(t *testing.T) {
	dev := ref.New()
	last := layersOf(t) - 1
	x, whole := open(t, dev, last), open(t, dev, last)
	x.Runner.o.Threshold = 0
	early := x.rows(t, 0, 8)
	if n := x.Exits(); n[0] != 16 || n[1] != 0 {
		t.Fatalf("%v tokens left", n)
	}
	if late := whole.rows(t, 0, 8); slices.Equal(early, late) {
		t.Error("logits before the last layer are those behind it")
	}
	x.Runner.o.Threshold = 1
	for from := 8; from < 24; from += 8 {
		got, want := x.rows(t, from, from+8), whole.rows(t, from, from+8)
		if d := difference(got, want); d > 1e-5 {
			t.Errorf("tokens from %d on: logits differ by %g", from, d)
		}
	}
}

// TestSomeLeave: a token leaves or stays by its own logits at the exit, those that stay have what they have beside others that stay too, up to the caches of those
// that left, and every cache above an exit is filled: the logits of later tokens are numbers near those of the whole model.
func TestSomeLeave(t *testing.T) {
	dev := ref.New()
	x, first := open(t, dev, 2, 4), open(t, dev, 2, 4)
	first.Runner.o.Threshold = 0
	at := first.rows(t, 0, 8) // of the first exit
	vocab := x.Vocab()
	var leads []float64
	for row := range 16 {
		leads = append(leads, lead(at[row*vocab:(row+1)*vocab]))
	}
	sorted := slices.Sorted(slices.Values(leads))
	x.Runner.o.Threshold = (sorted[7] + sorted[8]) / 2
	got := x.rows(t, 0, 8)
	if n := x.Exits(); n[0] != 8 || n[0]+n[1]+n[2] != 16 {
		t.Errorf("%v tokens left", n)
	}
	for row, l := range leads {
		if left := slices.Equal(got[row*vocab:(row+1)*vocab], at[row*vocab:(row+1)*vocab]); left != (l >= x.Runner.o.Threshold) {
			t.Errorf("row %d, which leads by %.3f of %.3f, left: %t", row, l, x.Runner.o.Threshold, left)
		}
	}
	for _, v := range x.rows(t, 8, 16) {
		if v != v || math.IsInf(float64(v), 0) {
			t.Fatal("a later token has logits that are no numbers")
		}
	}
}

// layersOf is how many layers the built-in model has.
func layersOf(t *testing.T) int {
	dir, err := modeldir.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	return dir.Model.Config.Layers
}

func difference(a, b []float32) (most float64) {
	for i := range a {
		most = max(most, math.Abs(float64(a[i]-b[i])))
	}
	return most
}

// TestLead: the lead is the difference of the two largest probabilities.
func TestLead(t *testing.T) {
	for _, c := range []struct {
		logits []float32
		want   float64
	}{{[]float32{0, 0}, 0}, {[]float32{float32(math.Log(3)), 0}, 0.5}, {[]float32{float32(math.Log(2)), float32(math.Log(6)), 0, 0}, 0.4}} {
		if got := lead(c.logits); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%v leads by %g, wanted %g", c.logits, got, c.want)
		}
	}
}

// TestRefused: thresholds and layers that there are not are refused with their numbers.
func TestRefused(t *testing.T) {
	for want, o := range map[string]Options{
		"the threshold is 1.5; 0 to 1":          {[]int{2}, 1.5},
		"the threshold is NaN":                  {[]int{2}, math.NaN()},
		"the threshold is -0.1":                 {[]int{2}, -0.1},
		"no layers are given":                   {nil, 0.5},
		"an exit after layer 8 of a model of 8": {[]int{8}, 0.5},
		"an exit after layer 0":                 {[]int{0}, 0.5},
		"layers [3 3] do not ascend":            {[]int{3, 3}, 0.5},
	} {
		if err := o.Check(8); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v; it should say %q", o, err, want)
		}
	}
}
