package check

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights"
	"github.com/ridge-llm/ridge/weights/adapter"
	"github.com/ridge-llm/ridge/weights/safetensors"
)

// numbers is a tensor of a test.
type numbers struct {
	shape []int
	x     []float32
}

// random is a tensor of small numbers.
func random(r *rand.Rand, shape ...int) numbers {
	n := numbers{shape: shape}
	size := 1
	for _, d := range shape {
		size *= d
	}
	for range size {
		n.x = append(n.x, 0.2*float32(r.NormFloat64()))
	}
	return n
}

// at is number i, j of a matrix.
func (n numbers) at(i, j int) float64 { return float64(n.x[i*n.shape[1]+j]) }

// merging is an adapter and what it adds to the tensors of its base, as PEFT's merge_and_unload computes it.
type merging struct {
	base    string
	config  string             // fields beside r, lora_alpha and peft_type
	tensors map[string]numbers // of the adapter, without the beginning that PEFT gives all names
	// changed changes a tensor of the base, if the adapter does.
	changed func(name string, shape []int, x []float32)
}

const mergedRank, mergedAlpha = 3, 6

// product adds Scale · B A to a matrix [out, in]. rows from one on are those of another matrix.
func product(x []float32, a, b numbers, from, out, in int) {
	for o := range out {
		for i := range in {
			sum := 0.0
			for r := range mergedRank {
				sum += b.at(from+o, r) * a.at(r, i)
			}
			x[o*in+i] += float32(mergedAlpha / mergedRank * sum)
		}
	}
}

// stacked adds PEFT's delta of a parameter [experts, d1, d2], einsum("o r e, e r i -> e i o") of B [d2, r × e] and A [e × r, d1] or, with outputs
// first, "-> e o i" of B [d1, r × e] and A [e × r, d2], for one expert.
func stacked(x []float32, a, b numbers, e, experts, d1, d2 int, outputsFirst bool) {
	for i := range d1 {
		for j := range d2 {
			sum := 0.0
			for r := range mergedRank {
				if outputsFirst {
					sum += b.at(i, r*experts+e) * a.at(e*mergedRank+r, j)
				} else {
					sum += b.at(j, r*experts+e) * a.at(e*mergedRank+r, i)
				}
			}
			x[i*d2+j] += float32(mergedAlpha / mergedRank * sum)
		}
	}
}

// gptOSS has both parameters of its experts changed: PEFT wraps the module twice, the parameter that was registered last outermost.
func gptOSS(r *rand.Rand) merging {
	const experts, hidden, ffn = 4, 32, 40
	m := merging{base: "testdata/gptoss-yarn", config: `"target_modules": [], "target_parameters": ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]`, tensors: map[string]numbers{}}
	for l := range 2 {
		name := fmt.Sprintf("model.layers.%d.mlp.experts", l)
		m.tensors[name+".base_layer.lora_A.weight"], m.tensors[name+".base_layer.lora_B.weight"] = random(r, experts*mergedRank, hidden), random(r, 2*ffn, mergedRank*experts)
		m.tensors[name+".lora_A.weight"], m.tensors[name+".lora_B.weight"] = random(r, experts*mergedRank, ffn), random(r, hidden, mergedRank*experts)
	}
	m.changed = func(name string, shape []int, x []float32) {
		module, parameter := name[:max(0, strings.LastIndexByte(name, '.'))], name[strings.LastIndexByte(name, '.')+1:]
		switch parameter {
		case "gate_up_proj":
			module += ".base_layer"
		case "down_proj":
		default:
			return
		}
		for e := range experts {
			each := shape[1] * shape[2]
			stacked(x[e*each:(e+1)*each], m.tensors[module+".lora_A.weight"], m.tensors[module+".lora_B.weight"], e, experts, shape[1], shape[2], false)
		}
	}
	return m
}

// qwen3MoE has the parameters changed that transformers 5 makes of the experts' matrices of a checkpoint: gates before ups, with outputs first.
func qwen3MoE(outputsFirst bool) func(r *rand.Rand) merging {
	return func(r *rand.Rand) merging {
		const experts, hidden, ffn = 7, 32, 24
		m := merging{base: "testdata/qwen3moe-ofall", config: `"target_modules": ["o_proj"], "target_parameters": ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]`, tensors: map[string]numbers{}}
		pair := func(name string, d1, d2 int) {
			if !outputsFirst {
				d1, d2 = d2, d1
			}
			m.tensors[name+".lora_A.weight"], m.tensors[name+".lora_B.weight"] = random(r, experts*mergedRank, d2), random(r, d1, mergedRank*experts)
		}
		for l := range 2 {
			name := fmt.Sprintf("model.layers.%d.mlp.experts", l)
			pair(name+".base_layer", 2*ffn, hidden)
			pair(name, hidden, ffn)
			o := fmt.Sprintf("model.layers.%d.self_attn.o_proj", l)
			m.tensors[o+".lora_A.weight"], m.tensors[o+".lora_B.weight"] = random(r, mergedRank, 48), random(r, hidden, mergedRank)
		}
		m.changed = func(name string, shape []int, x []float32) {
			if module, ok := strings.CutSuffix(name, ".o_proj.weight"); ok {
				product(x, m.tensors[module+".o_proj.lora_A.weight"], m.tensors[module+".o_proj.lora_B.weight"], 0, shape[0], shape[1])
			}
			module, rest, ok := strings.Cut(name, ".experts.")
			if !ok {
				return
			}
			var e int
			var which string
			fmt.Sscanf(strings.ReplaceAll(rest, ".", " "), "%d %s", &e, &which)
			module += ".experts"
			if which == "down_proj" {
				stacked(x, m.tensors[module+".lora_A.weight"], m.tensors[module+".lora_B.weight"], e, experts, hidden, ffn, outputsFirst)
				return
			}
			both := make([]float32, 2*ffn*hidden)
			stacked(both, m.tensors[module+".base_layer.lora_A.weight"], m.tensors[module+".base_layer.lora_B.weight"], e, experts, 2*ffn, hidden, outputsFirst)
			if which == "up_proj" {
				both = both[ffn*hidden:]
			}
			for i := range x {
				x[i] += both[i]
			}
		}
		return m
	}
}

// gemma4MoE has a square parameter changed, whose layout the version of PEFT says.
func gemma4MoE(version string) func(r *rand.Rand) merging {
	return func(r *rand.Rand) merging {
		const experts, size = 8, 32
		m := merging{base: "testdata/gemma4-moe", config: fmt.Sprintf(`"target_modules": [], "target_parameters": ["experts.gate_up_proj"], "peft_version": %q`, version), tensors: map[string]numbers{}}
		m.changed = func(name string, shape []int, x []float32) {
			module, ok := strings.CutSuffix(name, ".gate_up_proj")
			if !ok {
				return
			}
			a, b := random(r, experts*mergedRank, size), random(r, size, mergedRank*experts)
			m.tensors[module+".lora_A.weight"], m.tensors[module+".lora_B.weight"] = a, b
			for e := range experts {
				stacked(x[e*size*size:(e+1)*size*size], a, b, e, experts, size, size, true)
			}
		}
		return m
	}
}

// modules has a product beside the matrices of a base whose names end so.
func modules(base string, ends ...string) func(r *rand.Rand) merging {
	return func(r *rand.Rand) merging {
		m := merging{base: base, config: fmt.Sprintf(`"target_modules": %q`, ".*("+strings.Join(ends, "|")+")"), tensors: map[string]numbers{}}
		m.changed = func(name string, shape []int, x []float32) {
			module, ok := strings.CutSuffix(name, ".weight")
			for _, end := range ends {
				if ok && strings.HasSuffix(module, end) {
					a, b := random(r, mergedRank, shape[1]), random(r, shape[0], mergedRank)
					m.tensors[module+".lora_A.weight"], m.tensors[module+".lora_B.weight"] = a, b
					product(x, a, b, 0, shape[0], shape[1])
				}
			}
		}
		return m
	}
}

// tokens has rows of the embeddings replaced, in another order than that of the tokens, and a head of its own.
func tokens(r *rand.Rand) merging {
	const vocab, hidden = 96, 32
	ids := []int{40, 7, 12}
	m := merging{base: "testdata/qwen3moe-ofall", config: `"target_modules": [], "trainable_token_indices": [40, 7, 12], "modules_to_save": ["lm_head"]`}
	rows, head := random(r, len(ids), hidden), random(r, vocab, hidden)
	m.tensors = map[string]numbers{"model.embed_tokens.token_adapter.trainable_tokens_delta": rows, "lm_head.weight": head}
	m.changed = func(name string, _ []int, x []float32) {
		switch name {
		case "model.embed_tokens.weight":
			for i, id := range ids {
				copy(x[id*hidden:(id+1)*hidden], rows.x[i*hidden:])
			}
		case "lm_head.weight":
			copy(x, head.x)
		}
	}
	return m
}

// TestAdaptersEqualMerged: adapters give what the base gives whose matrices were changed as PEFT merges them, computed here from its formulas.
func TestAdaptersEqualMerged(t *testing.T) {
	architectures := filepath.Join(shared, "reference/architectures")
	for name, make := range map[string]func(*rand.Rand) merging{
		"parameters with inputs first":  gptOSS,
		"parameters with outputs first": qwen3MoE(true),
		"parameters by PEFT 0.17":       qwen3MoE(false),
		"square parameters":             gemma4MoE("0.19.1"),
		"modules of experts":            modules("testdata/mixtral-window", ".w1", ".w2", ".w3", ".gate"),
		"modules of some experts":       modules("testdata/mixtral-window", ".1.w1", ".1.w2", ".3.w3"),
		"trained tokens and a head":     tokens,
		"latent attention":              modules(filepath.Join(architectures, "deepseek-v3"), ".q_a_proj", ".q_b_proj", ".kv_a_proj_with_mqa", ".kv_b_proj", ".o_proj"),
		"experts that all rows pass":    modules(filepath.Join(architectures, "deepseek-v3"), ".down_proj"),
	} {
		t.Run(name, func(t *testing.T) {
			m := make(rand.New(rand.NewPCG(3, 5)))
			if _, err := os.Stat(m.base); err != nil {
				t.Skip("the base in ../shared is not here")
			}
			merged, own := t.TempDir(), t.TempDir()
			m.write(t, merged, own)
			a, err := adapter.Open(own)
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			g, err := readGolden(m.base)
			if err != nil {
				t.Fatal(err)
			}
			want := computed(t, merged, g)
			different := false
			for i := range g.cases {
				now, before := want.cases[i].logits, g.cases[i].logits
				for j, x := range before {
					different = different || now[len(now)-len(before)+j]-x > 0.01
				}
			}
			if !different {
				t.Fatal("the adapter changes nothing")
			}
			for name, open := range devices {
				for _, chunk := range []int{0, 7} {
					dev := open()
					res, err := adapted(a, m.base, want, Options{Devices: []backend.Device{dev}, Cache: graph.F32, Chunk: chunk})
					dev.Close()
					if err != nil {
						t.Fatal(err)
					}
					if !res.OK {
						t.Errorf("%s: %+v", name, *res)
					}
				}
			}
		})
	}
}

// computed is a golden whose logits are what the reference device computes of another model.
func computed(t *testing.T, path string, g *golden) *golden {
	t.Helper()
	b, err := modeldir.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	dev := devices["ref"]()
	defer dev.Close()
	o := Options{Devices: []backend.Device{dev}, Cache: graph.F32}
	gr, err := b.Model.Graph(graphOptions(o))
	if err != nil {
		t.Fatal(err)
	}
	lim := limits(g)
	lim.KeepAll(gr)
	prog, err := o.program(gr, b, lim, true)
	if err != nil {
		t.Fatal(err)
	}
	defer prog.Close()
	r := &runner{prog: prog, past: make([]int, len(g.cases))}
	own := &golden{file: path}
	for i, c := range g.cases {
		rows, err := r.forward(map[int][]int32{i: c.prompt}, []int{i}, false)
		if err != nil {
			t.Fatal(err)
		}
		own.cases = append(own.cases, goldenCase{prompt: c.prompt, logits: append([]float32(nil), rows...)})
	}
	return own
}

// write writes the merged model and the adapter, all numbers in F32.
func (m *merging) write(t *testing.T, merged, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(m.base, "*.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]numbers{}
	for _, file := range files {
		if filepath.Base(file) == "golden.safetensors" {
			continue
		}
		s, err := weights.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range s.Names() {
			info, _, err := s.Raw(name)
			if err != nil {
				t.Fatal(err)
			}
			x, err := s.Tensor(name)
			if err != nil {
				t.Fatal(err)
			}
			n := numbers{shape: info.Shape, x: x.Floats()}
			m.changed(name, n.shape, n.x)
			out[name] = n
		}
		s.Close()
	}
	config, err := os.ReadFile(filepath.Join(m.base, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	writeTensors(t, filepath.Join(merged, "model.safetensors"), out, "")
	writeTensors(t, filepath.Join(dir, "adapter_model.safetensors"), m.tensors, "base_model.model.")
	for path, text := range map[string][]byte{
		filepath.Join(merged, "config.json"):      config,
		filepath.Join(dir, "adapter_config.json"): fmt.Appendf(nil, `{"peft_type": "LORA", "r": %d, "lora_alpha": %d, %s}`, mergedRank, mergedAlpha, m.config),
	} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// writeTensors writes a safetensors file.
func writeTensors(t *testing.T, path string, all map[string]numbers, prefix string) {
	t.Helper()
	var list []safetensors.Output
	for name, n := range all {
		data := quant.FromFloats(n.x, 1, len(n.x)).Data
		list = append(list, safetensors.Output{Name: prefix + name, DType: "F32", Shape: n.shape, Data: func(w io.Writer) error {
			_, err := w.Write(data)
			return err
		}})
	}
	if err := weights.WriteFile(path, func(w io.Writer) error { return safetensors.Write(w, map[string]string{"format": "pt"}, list) }); err != nil {
		t.Fatal(err)
	}
}

// TestAdapterRefusedByName: what a device does not compute has no place in its graph, and is refused with the module's name.
func TestAdapterRefusedByName(t *testing.T) {
	for base, c := range map[string]struct {
		of   func(*rand.Rand) merging
		want string
	}{
		filepath.Join(shared, "reference/architectures/deepseek-v3"): {modules(filepath.Join(shared, "reference/architectures/deepseek-v3"), ".kv_b_proj"), "self_attn.kv_b_proj"},
		"testdata/gptoss-yarn": {gptOSS, "mlp.experts"},
	} {
		if _, err := os.Stat(base); err != nil {
			continue // in ../shared, which is not here
		}
		m, dir := c.of(rand.New(rand.NewPCG(3, 5))), t.TempDir()
		m.write(t, t.TempDir(), dir)
		a, err := adapter.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		b, err := modeldir.Open(base)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		g, err := b.Model.Graph(model.Options{Act: graph.F32, Cache: graph.F32})
		if err != nil {
			t.Fatal(err)
		}
		if g, err = pass.LoRA(g, pass.Options{Adapters: pass.Adapters{Slots: 1, Rank: 8}}); err != nil {
			t.Fatal(err)
		}
		var slots []*graph.Weight
		for _, w := range g.Weights {
			if w.Slots != nil {
				slots = append(slots, w)
			}
		}
		if _, err := b.Model.Adapt(a, slots); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; it should name %s", base, err, c.want)
		}
	}
}

// TestSquareParameterRefused: whose first dimension are inputs or outputs, by a version of PEFT that does not say which.
func TestSquareParameterRefused(t *testing.T) {
	m, dir := gemma4MoE("0.18.1")(rand.New(rand.NewPCG(3, 5))), t.TempDir()
	m.write(t, t.TempDir(), dir)
	a, err := adapter.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	g, err := readGolden(m.base)
	if err != nil {
		t.Fatal(err)
	}
	dev := devices["ref"]()
	defer dev.Close()
	if _, err := adapted(a, m.base, g, Options{Devices: []backend.Device{dev}, Cache: graph.F32}); err == nil || !strings.Contains(err.Error(), `peft_version "0.18.1"`) {
		t.Errorf("%v; it should name the version", err)
	}
}
