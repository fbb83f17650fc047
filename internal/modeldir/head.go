package modeldir

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/ridge-llm/ridge/weights"
)

// Head is what a cross-encoder makes of the first token's hidden state h [hidden]: out·tanh(dense·h + bias) + bias, a number for
// each label. Without Dense it is out·h + bias.
type Head struct {
	Labels           int
	Dense, DenseBias []float32 // [mid × hidden] and [mid]; nil: there is none
	Out, OutBias     []float32 // [Labels × mid] and [Labels]
	// Sigmoid: a score is 1/(1+exp(-x)), as Sentence Transformers has it for one label unless the files say otherwise.
	Sigmoid bool
}

// headNames are what files call the parts of a head: those of BERT (a pooler and a classifier), of RoBERTa (a classifier of two
// layers) and of GGUF.
var headNames = []struct{ dense, out string }{
	{"classifier.dense", "classifier.out_proj"},
	{"bert.pooler.dense", "classifier"},
	{"cls", "cls.output"},
	{"", "cls"},
}

// HeadLayers are what the files call the layers of the head; dense is "" for a head of one, out for a model without.
func (d *Dir) HeadLayers() (dense, out string) {
	for _, names := range headNames {
		if _, ok := d.Source.Info(names.out + ".weight"); ok {
			return names.dense, names.out
		}
	}
	return "", ""
}

// Head reads the head of a model that compares texts; nil when the files have none.
func (d *Dir) Head() (h *Head, err error) {
	dense, out := d.HeadLayers()
	if out == "" {
		return nil, nil
	}
	h = &Head{}
	mid := d.Model.Config.Hidden
	if dense != "" {
		if h.Dense, h.DenseBias, err = d.layer(dense, mid); err != nil {
			return nil, err
		}
		mid = len(h.DenseBias)
	}
	if h.Out, h.OutBias, err = d.layer(out, mid); err != nil {
		return nil, err
	}
	h.Labels = len(h.OutBias)
	h.Sigmoid, err = d.sigmoid(h.Labels)
	return h, err
}

// layer reads a matrix with so many columns and its bias, which may be missing.
func (d *Dir) layer(name string, cols int) (matrix, bias []float32, err error) {
	matrix, err = d.floats(name + ".weight")
	if err != nil {
		return nil, nil, err
	}
	if len(matrix) == 0 || len(matrix)%cols != 0 {
		return nil, nil, fmt.Errorf("modeldir: %s: %s.weight has %d numbers, and rows of %d are wanted", d.Source.Path, name, len(matrix), cols)
	}
	bias = make([]float32, len(matrix)/cols)
	if _, given := d.Source.Info(name + ".bias"); !given {
		return matrix, bias, nil
	}
	given, err := d.floats(name + ".bias")
	if err == nil && len(given) != len(bias) {
		err = fmt.Errorf("modeldir: %s: %s.bias has %d numbers and its matrix %d rows", d.Source.Path, name, len(given), len(bias))
	}
	return matrix, given, err
}

// floats decodes a tensor.
func (d *Dir) floats(name string) ([]float32, error) {
	t, err := d.Source.Tensor(name)
	if err != nil {
		return nil, err
	}
	all := t.Floats()
	for i, x := range all {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return nil, fmt.Errorf("modeldir: %s: number %d of %s is %v", d.Source.Path, i, name, x)
		}
	}
	return all, nil
}

// sigmoid reports whether scores go through the logistic function, by what Sentence Transformers wrote into config.json.
func (d *Dir) sigmoid(labels int) (bool, error) {
	var c struct {
		Old string `json:"sbert_ce_default_activation_function"`
		New struct {
			Activation string `json:"activation_fn"`
		} `json:"sentence_transformers"`
	}
	if d.Source.Kind == weights.HuggingFace {
		if err := json.Unmarshal(d.Source.Config, &c); err != nil {
			return false, fmt.Errorf("modeldir: %s: config.json: %w", d.Source.Path, err)
		}
	}
	name := c.New.Activation
	if name == "" {
		name = c.Old
	}
	switch {
	case strings.HasSuffix(name, ".Sigmoid"):
		return true, nil
	case strings.HasSuffix(name, ".Identity"):
		return false, nil
	case name != "":
		return false, fmt.Errorf("modeldir: %s: config.json has scores go through %q; Sigmoid and Identity are supported", d.Source.Path, name)
	}
	return labels == 1, nil
}

// Score is what the head makes of a hidden state: the raw number of each label.
func (h *Head) Score(hidden []float32) []float32 {
	if h.Dense != nil {
		hidden = affine(h.Dense, h.DenseBias, hidden)
		for i, x := range hidden {
			hidden[i] = float32(math.Tanh(float64(x)))
		}
	}
	return affine(h.Out, h.OutBias, hidden)
}

// affine is matrix·x + bias.
func affine(matrix, bias, x []float32) []float32 {
	y := make([]float32, len(bias))
	for i := range y {
		row := matrix[i*len(x) : (i+1)*len(x)]
		sum := float64(bias[i])
		for k, m := range row {
			sum += float64(m) * float64(x[k])
		}
		y[i] = float32(sum)
	}
	return y
}
