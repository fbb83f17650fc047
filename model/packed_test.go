package model_test

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// TestPackedExperts writes a small gpt-oss twice: with its experts packed as the hub has them, MXFP4 codes and exponents in tensors of
// bytes, out × in, and with the same numbers in BF16, in × out, which is how transformers writes them. Both have to give the same weights.
func TestPackedExperts(t *testing.T) {
	s, err := weights.Open("../../shared/reference/architectures/gpt-oss")
	if err != nil {
		t.Skip(err)
	}
	defer s.Close()
	packed, floats := tensorFile{}, tensorFile{}
	for _, name := range s.Names() {
		info, data, err := s.Raw(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(name, "_proj") || len(info.Shape) != 3 {
			packed[name], floats[name] = fileTensor{info.DType, info.Shape, data}, fileTensor{info.DType, info.Shape, data}
			continue
		}
		q, err := s.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		n, in, out := info.Shape[0], info.Shape[1], info.Shape[2]
		codes, exponents, rounded := packExperts(q, n, in, out)
		packed[name+"_blocks"] = fileTensor{"U8", []int{n, out, in / 32, 16}, codes}
		packed[name+"_scales"] = fileTensor{"U8", []int{n, out, in / 32}, exponents}
		floats[name] = fileTensor{"BF16", info.Shape, rounded}
	}
	config := string(s.Config)
	a := expertWeights(t, floats, config)
	b := expertWeights(t, packed, strings.Replace(config, "{", `{"quantization_config": {"quant_method": "mxfp4"},`, 1))
	for name, want := range a {
		if !slices.Equal(want, b[name]) {
			t.Errorf("%s differs", name)
		}
	}
	if len(a) != 4*3 {
		t.Errorf("%d stacks of experts in 4 layers", len(a))
	}
}

// packExperts rounds experts' matrices, in × out, to MXFP4 along in.
func packExperts(q quant.Tensor, n, in, out int) (codes, exponents, rounded []byte) {
	values := [8]float64{0, 0.5, 1, 1.5, 2, 3, 4, 6}
	x := make([]float32, n*in*out)
	quant.Decode(q.Format, x, q.Data)
	rounded = make([]byte, 2*len(x))
	for e := range n {
		for o := range out {
			for block := range in / 32 {
				at := func(i int) int { return (e*in+32*block+i)*out + o }
				largest := 0.0
				for i := range 32 {
					largest = max(largest, math.Abs(float64(x[at(i)])))
				}
				exponent := math.Floor(math.Log2(largest)) - 2
				exponents = append(exponents, byte(exponent+127))
				var bytes [16]byte
				for i := range 32 {
					v := float64(x[at(i)]) / math.Exp2(exponent)
					code := 0
					for c, value := range values {
						if math.Abs(math.Abs(v)-value) < math.Abs(math.Abs(v)-values[code]) {
							code = c
						}
					}
					v = math.Copysign(values[code]*math.Exp2(exponent), v)
					if math.Signbit(v) {
						code |= 8
					}
					bytes[i/2] |= byte(code) << (i % 2 * 4)
					binary.LittleEndian.PutUint16(rounded[2*at(i):], quant.F32ToBF16(float32(v)))
				}
				codes = append(codes, bytes[:]...)
			}
		}
	}
	return codes, exponents, rounded
}

type fileTensor struct {
	dtype string
	shape []int
	data  []byte
}

type tensorFile map[string]fileTensor

// expertWeights writes the tensors as a model directory, and decodes the experts' weights in it.
func expertWeights(t *testing.T, f tensorFile, config string) map[string][]float32 {
	t.Helper()
	dir, header, data := t.TempDir(), map[string]any{}, []byte(nil)
	for name, x := range f {
		header[name] = map[string]any{"dtype": x.dtype, "shape": x.shape, "data_offsets": []int{len(data), len(data) + len(x.data)}}
		data = append(data, x.data...)
	}
	text, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	file := append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)
	for name, content := range map[string][]byte{"config.json": []byte(config), "model.safetensors": append(file, data...)} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := modeldir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	g, err := b.Model.Graph(model.Options{Act: graph.F32, Cache: graph.F16})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]float32{}
	for _, w := range g.Weights {
		if !strings.HasSuffix(w.Name, "_exps.weight") {
			continue
		}
		m, err := recipe.Open(w.Recipe, b)
		if err != nil {
			t.Fatal(err)
		}
		parts, err := m.Parts(w.Matrices())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range parts {
			x := make([]float32, p.Rows*p.Cols)
			quant.Decode(p.Format, x, p.Data)
			all[w.Name] = append(all[w.Name], x...)
		}
	}
	return all
}

// TestNoExperts: an architecture of experts whose configuration has none of them is an error, not a panic.
func TestNoExperts(t *testing.T) {
	const from = "../internal/check/testdata/gptoss-yarn"
	dir := t.TempDir()
	for _, name := range []string{"config.json", "model.safetensors"} {
		data, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Replace(string(data), `"num_local_experts": 4`, `"num_local_experts": 0`, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := modeldir.Open(dir)
	if err == nil {
		defer b.Close()
		_, err = b.Model.Graph(model.Options{Act: graph.F32, Cache: graph.F16})
	}
	if err == nil || !strings.Contains(err.Error(), "num_local_experts is 0") {
		t.Errorf("error %v", err)
	}
}
