package model_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/quant"
)

// zeroBiases has a bias of zeros for every tensor that the files have no bias of.
type zeroBiases struct{ model.Tensors }

func (z zeroBiases) Tensor(name string) (quant.Tensor, bool) {
	t, there := z.Tensors.Tensor(name)
	if stem, bias := strings.CutSuffix(name, ".bias"); bias && !there {
		if m, there := z.Tensors.Tensor(stem + ".weight"); there {
			return quant.FromFloats(make([]float32, m.Rows), 1, m.Rows), true
		}
	}
	return t, there
}

// TestContradictions: a configuration that says one thing in two places, or another thing than the file's tensors, is refused or warned of by the names of
// both.
func TestContradictions(t *testing.T) {
	for _, c := range []struct {
		dir    string
		fields map[string]any // set; nil: taken out
		zeros  bool
		said   []string // in the error or the warning; nil: there is none
	}{
		{"llama-default", map[string]any{"attention_bias": true}, false, []string{"attention_bias", "q_proj.bias"}},
		{"llama-default", map[string]any{"mlp_bias": true}, false, []string{"mlp_bias", "gate_proj.bias"}},
		{"llama-default", map[string]any{"attention_bias": true}, true, nil},
		{"llama-default", nil, true, nil},
		{"llama-mqa-tied-bias", nil, false, nil},
		{"llama-mqa-tied-bias", map[string]any{"attention_bias": false}, false, []string{"attention_bias", "q_proj.bias"}},
		{"llama-mqa-tied-bias", map[string]any{"attention_bias": nil}, false, []string{"attention_bias", "q_proj.bias"}},
		{"llama-default", map[string]any{"rope_theta": 5e5, "rope_parameters": map[string]any{"rope_type": "default", "rope_theta": 1e4}}, false, []string{"rope_theta", "500000", "10000"}},
		{"llama-default", map[string]any{"rope_theta": 1e4, "rope_parameters": map[string]any{"rope_type": "default", "rope_theta": 1e4}}, false, nil},
		{"llama-default", map[string]any{"rope_theta": 1e4, "rope_parameters": nil, "rope_scaling": map[string]any{"rope_type": "linear", "factor": 2, "rope_theta": 2e4}}, false, []string{"rope_theta", "20000", "10000"}},
		{"llama-default", map[string]any{"partial_rotary_factor": 1.0, "rope_parameters": map[string]any{"rope_type": "default", "partial_rotary_factor": 0.5, "rope_theta": 1e4}}, false, []string{"partial_rotary_factor", "0.5"}},
	} {
		path := filepath.Join("../internal/check/testdata", c.dir)
		d, err := modeldir.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(path, "config.json"))
		if err != nil {
			t.Fatal(err)
		}
		config := map[string]any{}
		if err := json.Unmarshal(text, &config); err != nil {
			t.Fatal(err)
		}
		for name, v := range c.fields {
			if config[name] = v; v == nil {
				delete(config, name)
			}
		}
		if text, err = json.Marshal(config); err != nil {
			t.Fatal(err)
		}
		files := model.Tensors(d)
		if c.zeros {
			files = zeroBiases{d}
		}
		said := ""
		m, err := model.FromHF("config.json", text, files)
		if err != nil {
			said = err.Error()
		} else {
			said = strings.Join(m.Warnings, "; ")
		}
		if (said == "") != (c.said == nil) {
			t.Errorf("%s with %v: %q", c.dir, c.fields, said)
		}
		for _, word := range c.said {
			if !strings.Contains(said, word) {
				t.Errorf("%s with %v does not name %s: %q", c.dir, c.fields, word, said)
			}
		}
		d.Close()
	}
}
