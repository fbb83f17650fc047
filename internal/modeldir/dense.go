package modeldir

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights"
	"github.com/ridge-llm/ridge/weights/safetensors"
)

// Dense is a layer between a pooled embedding x [in] and the vector that is given out: Matrix·x + Bias, and the hyperbolic tangent of that with Tanh.
type Dense struct {
	Name         string    // in the files
	Matrix, Bias []float32 // [out × in] and [out]
	Biased, Tanh bool
}

// Out is how many numbers the layer gives.
func (l *Dense) Out() int { return len(l.Bias) }

// In is how many numbers the layer takes.
func (l *Dense) In() int { return len(l.Matrix) / max(len(l.Bias), 1) }

// Of is what the layer makes of x.
func (l *Dense) Of(x []float32) []float32 {
	y := affine(l.Matrix, l.Bias, x)
	if l.Tanh {
		for i, v := range y {
			y[i] = float32(math.Tanh(float64(v)))
		}
	}
	return y
}

// Dense reads the layers that embeddings go through behind pooling, in order: the modules called Dense of Sentence Transformers' modules.json, or a GGUF file's dense_2 and dense_3.
func (d *Dir) Dense() (all []Dense, err error) {
	if d.Source.Kind == weights.GGUF {
		all, err = d.ggufDense()
	} else {
		all, err = d.moduleDense()
	}
	width := d.Model.Config.Hidden
	for _, l := range all {
		if l.In() != width {
			return nil, fmt.Errorf("modeldir: %s: %s takes %d numbers, and what comes before gives %d", d.Source.Path, l.Name, l.In(), width)
		}
		width = l.Out()
	}
	return all, err
}

func (d *Dir) ggufDense() (all []Dense, err error) {
	if d.Model.Arch.Name != model.GemmaEmbedding {
		return nil, nil
	}
	for _, name := range []string{"dense_2", "dense_3"} {
		info, ok := d.Source.Info(name + ".weight")
		if !ok {
			continue
		}
		if len(info.Shape) != 2 {
			return nil, fmt.Errorf("modeldir: %s: %s.weight has the shape %v, and a matrix is wanted", d.Source.Path, name, info.Shape)
		}
		l := Dense{Name: name}
		if l.Matrix, err = d.floats(name + ".weight"); err != nil {
			return nil, err
		}
		if l.Bias = make([]float32, info.Shape[0]); info.Shape[0] == 0 {
			return nil, fmt.Errorf("modeldir: %s: %s.weight has no rows", d.Source.Path, name)
		}
		all = append(all, l)
	}
	return all, nil
}

// modulesFile is where Sentence Transformers list what a text goes through.
const modulesFile = "modules.json"

func (d *Dir) moduleDense() (all []Dense, err error) {
	data, err := d.optional(modulesFile)
	if err != nil || data == nil {
		return nil, err
	}
	var modules []struct{ Path, Type string }
	if err := json.Unmarshal(data, &modules); err != nil {
		return nil, fmt.Errorf("modeldir: %s: %s is no list of modules: %w", d.Source.Path, modulesFile, err)
	}
	for i, m := range modules {
		switch kind := m.Type[strings.LastIndexByte(m.Type, '.')+1:]; {
		case i == 0 || kind == "Pooling" || kind == "Normalize" || kind == "Dropout":
		case kind == "Dense":
			l, err := d.dense(m.Path)
			if err != nil {
				return nil, err
			}
			all = append(all, l)
		default:
			return nil, fmt.Errorf("modeldir: %s: %s has texts go through a %s (%q); Pooling, Dense and Normalize are supported", d.Source.Path, modulesFile, kind, m.Path)
		}
	}
	return all, nil
}

// dense reads the layer in a folder of the model's.
func (d *Dir) dense(path string) (l Dense, err error) {
	if !filepath.IsLocal(path) {
		return l, fmt.Errorf("modeldir: %s: %s names the folder %q, which is not one of the model's", d.Source.Path, modulesFile, path)
	}
	l.Name = path
	data, err := d.Source.Sidecar(filepath.Join(path, "config.json"))
	if err != nil {
		return l, fmt.Errorf("modeldir: %s: %w", path, err)
	}
	config := struct {
		Activation string `json:"activation_function"`
	}{Activation: "torch.nn.modules.activation.Tanh"}
	if err := json.Unmarshal(data, &config); err != nil {
		return l, fmt.Errorf("modeldir: %s: %s/config.json is not a JSON object: %w", d.Source.Path, path, err)
	}
	switch name := config.Activation; {
	case strings.HasSuffix(name, ".Identity"):
	case strings.HasSuffix(name, ".Tanh"):
		l.Tanh = true
	default:
		return l, fmt.Errorf("modeldir: %s: %s/config.json has numbers go through %q; Identity and Tanh are supported", d.Source.Path, path, name)
	}
	file, err := safetensors.Open(filepath.Join(d.Source.Dir(), path, "model.safetensors"))
	if err != nil {
		return l, fmt.Errorf("modeldir: %s of %s: %w", path, d.Source.Path, err)
	}
	defer file.Close()
	out := -1 // rows of the matrix
	for _, t := range file.Tensors {
		var to *[]float32
		switch {
		case t.Name == "linear.weight" && len(t.Shape) == 2 && t.Shape[0] > 0:
			to, out = &l.Matrix, t.Shape[0]
		case t.Name == "linear.bias" && len(t.Shape) == 1 && t.Shape[0] > 0:
			l.Biased, to = true, &l.Bias
		default:
			return l, fmt.Errorf("modeldir: %s: %s/model.safetensors has %s, of the shape %v; linear.weight and linear.bias are wanted", d.Source.Path, path, t.Name, t.Shape)
		}
		format, ok := t.DType.Format()
		if !ok {
			return l, fmt.Errorf("modeldir: %s: %s of %s is in %s, and floats are wanted", d.Source.Path, t.Name, path, t.DType)
		}
		n := 1
		for _, k := range t.Shape {
			n *= k
		}
		*to = make([]float32, n)
		quant.Decode(format, *to, t.Data)
		for i, x := range *to {
			if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
				return l, fmt.Errorf("modeldir: %s: number %d of %s of %s is %v", d.Source.Path, i, t.Name, path, x)
			}
		}
	}
	if !l.Biased {
		l.Bias = make([]float32, max(out, 0))
	}
	if len(l.Bias) != out || len(l.Matrix) == 0 {
		return l, fmt.Errorf("modeldir: %s: %s/model.safetensors has a linear.weight of %d numbers in %d rows and a linear.bias of %d", d.Source.Path, path, len(l.Matrix), max(out, 0), len(l.Bias))
	}
	return l, nil
}
