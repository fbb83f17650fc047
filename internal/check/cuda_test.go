package check

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda"
	"github.com/ridge-llm/ridge/backend/ref"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/quant"
)

// gpuModels runs a test on the first NVIDIA GPU for each small model of testdata and each reference model that is here, and for others
// of the shared folder.
func gpuModels(t *testing.T, others []string, test func(t *testing.T, dir string, dev backend.Device)) {
	if _, err := cuda.Devices(); err != nil {
		t.Skipf("no GPU to test on: %v", err)
	}
	files, err := filepath.Glob("testdata/*/config.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("the small models are missing: %v", err)
	}
	for _, dir := range slices.Concat(supported, encoders, others) {
		files = append(files, filepath.Join(shared, dir, "config.json"))
	}
	for _, file := range files {
		dir := filepath.Dir(file)
		t.Run(filepath.Base(filepath.Dir(dir))+"/"+filepath.Base(dir), func(t *testing.T) {
			if _, err := os.Stat(dir); err != nil {
				t.Skip("the reference model is not here")
			}
			dev, err := cuda.New(cuda.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer dev.Close()
			test(t, dir, dev)
		})
	}
}

// TestModelsOnGPU compares models with upstream, computing in F32 with a cache in F32.
func TestModelsOnGPU(t *testing.T) {
	gpuModels(t, []string{"models/demo"}, func(t *testing.T, dir string, dev backend.Device) {
		res, err := Model(dir, dir, Options{Devices: []backend.Device{dev}, Cache: graph.F32})
		if err != nil {
			t.Fatal(err)
		}
		if !res.OK {
			t.Errorf("%+v", *res)
		}
		t.Logf("worst error %.2g over %d rows, greedy %d of %d", res.WorstError, res.Rows, res.GreedySame, res.Greedy)
	})
}

// TestModelsOnGPUWithOtherCaches computes in F32 with caches that lose something. How much is seen on the reference backend; the GPU may
// lose twice that.
func TestModelsOnGPUWithOtherCaches(t *testing.T) {
	gpuModels(t, nil, func(t *testing.T, dir string, dev backend.Device) {
		for _, cache := range []graph.Type{graph.F16, graph.BF16, graph.I8, graph.F8} {
			res, err := Model(dir, dir, Options{Devices: []backend.Device{dev}, Cache: cache})
			if err != nil {
				t.Fatal(err)
			}
			want, err := Model(dir, dir, Options{Devices: []backend.Device{ref.New()}, Cache: cache})
			if err != nil {
				t.Fatal(err)
			}
			if !(res.WorstError <= 2*want.WorstError+Tolerance) {
				t.Errorf("cache of %s: worst error %.2g, on the reference backend %.2g: %+v", cache, res.WorstError, want.WorstError, *res)
			}
			t.Logf("cache of %s: worst error %.2g (reference backend %.2g) over %d rows, greedy %d of %d (%d)",
				cache, res.WorstError, want.WorstError, res.Rows, res.GreedySame, res.Greedy, want.GreedySame)
		}
	})
}

// TestModelsOnGPUInBF16 runs the models as a GPU runs them fast: activations in BF16, and the cache in 16 or eight bits. How far
// that takes the logits of such small random models from upstream's (up to 6 % in BF16) is seen on the reference backend; the GPU
// may be twice as far.
func TestModelsOnGPUInBF16(t *testing.T) {
	gpuModels(t, nil, func(t *testing.T, dir string, dev backend.Device) {
		for _, cache := range []graph.Type{graph.F16, graph.BF16, graph.I8, graph.F8} {
			res, err := bf16(dir, dev, cache, quant.Invalid)
			if err != nil {
				t.Fatal(err)
			}
			want, err := bf16(dir, ref.New(), cache, quant.Invalid)
			if err != nil {
				t.Fatal(err)
			}
			if res.WorstError > 2*want.WorstError {
				t.Errorf("cache of %s: worst error %.2g, on the reference backend %.2g: %+v", cache, res.WorstError, want.WorstError, *res)
			}
			t.Logf("cache of %s: worst error %.2g (reference backend %.2g) over %d rows, greedy %d of %d (%d)",
				cache, res.WorstError, want.WorstError, res.Rows, res.GreedySame, res.Greedy, want.GreedySame)
		}
	})
}

// TestModelsOnGPUQuantised runs the models with weights quantised to eight and four bits on load, under the same rule.
func TestModelsOnGPUQuantised(t *testing.T) {
	gpuModels(t, nil, func(t *testing.T, dir string, dev backend.Device) {
		for _, weights := range []quant.Format{quant.FP8, quant.INT8, quant.INT4} {
			want, err := bf16(dir, ref.New(), graph.BF16, weights)
			if err != nil && strings.Contains(err.Error(), "can be quantised to") {
				t.Logf("%s: %v", weights, err)
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			res, err := bf16(dir, dev, graph.BF16, weights)
			if err != nil {
				t.Fatal(err)
			}
			if res.WorstError > 2*want.WorstError {
				t.Errorf("weights in %s: worst error %.2g, on the reference backend %.2g: %+v", weights, res.WorstError, want.WorstError, *res)
			}
			t.Logf("weights in %s: worst error %.2g (reference backend %.2g) over %d rows, greedy %d of %d (%d)",
				weights, res.WorstError, want.WorstError, res.Rows, res.GreedySame, res.Greedy, want.GreedySame)
		}
	})
}

// bf16 compares the model in dir with its golden file, computing in BF16 with a cache of another type, and with weights quantised to a
// format, if it is one.
func bf16(dir string, dev backend.Device, cache graph.Type, weights quant.Format) (*Result, error) {
	g, err := readGolden(dir)
	if err != nil {
		return nil, err
	}
	b, err := modeldir.Open(dir)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	gr, err := b.Model.Graph(model.Options{Act: graph.BF16, Cache: cache})
	if err != nil {
		return nil, err
	}
	if gr, err = pass.Run(gr, pass.All, pass.Options{Weights: weights, Kernels: compile.Kernels{Device: dev}}); err != nil {
		return nil, err
	}
	lim := limits(g)
	lim.KeepAll(gr)
	prog, err := compile.Compile(gr, dev, b, lim)
	if err != nil {
		return nil, err
	}
	defer prog.Close()
	res, r := &Result{File: g.file}, &runner{prog: prog, past: make([]int, len(g.cases))}
	if err := res.prompts(r, g, 0); err != nil {
		return nil, err
	}
	experts := slices.ContainsFunc(gr.Nodes, func(n *graph.Node) bool { return n.Op.Name() == "MoE" })
	if experts && res.WorstError < math.MaxFloat64 { // otherwise there was no number where one should be
		// Where two experts have nearly the same score, a rounding chooses the other one, and then the row is another, and those after it that
		// attend to it are disturbed. In gpt-oss's, rows 1 and 31 of the first of two cases are such: on the reference backend, the half of rows
		// that is best goes up to 0.019, and 0.041 after one BF16 step in 2 % of the projections' numbers, but the quarter only from 0.014 to
		// 0.018. So a quarter counts; TestModelsOnGPU, in F32, counts all.
		slices.Sort(res.errors)
		res.WorstError = res.errors[len(res.errors)/4]
	}
	return res, res.greedy(r, g)
}
