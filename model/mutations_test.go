package model_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
)

// mutation is a change to a configuration that makes it say something else than the file's weights, or nothing that has a meaning.
type mutation struct {
	path  string
	value any
}

// mutations are lies about a value: of another type, of a size no model has, words no one knows, a field that no one reads.
func mutations(path string, v any) (all []mutation) {
	add := func(values ...any) {
		for _, x := range values {
			all = append(all, mutation{path, x})
		}
	}
	switch v := v.(type) {
	case float64:
		add("words", []any{"x"}, map[string]any{"x": 1.0}, true, -3.0, 1e38)
	case bool:
		add("yes", 2.0, []any{true}, map[string]any{"x": true})
	case string:
		add(7.0, true, []any{v}, map[string]any{"x": v}, "no such word")
	case []any:
		add("words", 7.0, true, map[string]any{"x": 1.0})
		if len(v) > 0 {
			for _, x := range []any{"no such word", 7.5, map[string]any{}} {
				if _, numbers := v[0].(float64); numbers && x == 7.5 {
					continue // a number like the others
				}
				list := slices.Clone(v)
				list[len(list)-1] = x
				add(list)
			}
			add(v[:len(v)-1], append(slices.Clone(v), v[0]))
		}
	case map[string]any:
		add("words", 7.0, true, []any{"x"})
		for name, x := range v {
			all = append(all, mutations(path+"."+name, x)...)
		}
		add(with(v, "an_unknown_field", 0.5))
	}
	return all
}

// with is an object with a field set.
func with(o map[string]any, name string, v any) map[string]any {
	o = maps.Clone(o)
	o[name] = v
	return o
}

// mutate is a configuration with a mutation.
func mutate(o map[string]any, path []string, v any) map[string]any {
	if len(path) > 1 {
		v = mutate(o[path[0]].(map[string]any), path[1:], v)
	}
	return with(o, path[0], v)
}

// aboutTokens are fields that do not change what a model computes, whatever they say.
var aboutTokens = []string{"architectures", "_token_id", "model_type", "transformers_version", "dtype", "initializer", "dropout", "use_cache", "pretraining_tp", "id2label", "label2id", "return_dict", "tokenizer_class"}

// configurations are those of small models that are known to compute what upstream does.
func configurations(t *testing.T) []string {
	small, err := filepath.Glob("../internal/check/testdata/*/config.json")
	if err != nil || len(small) == 0 {
		t.Fatal(small, err)
	}
	reference, err := filepath.Glob("../../shared/reference/architectures/*/config.json")
	if err != nil {
		t.Fatal(err)
	}
	return append(small, reference...)
}

// TestLyingConfigurations changes every field of configurations to what it cannot be. Each is refused, or warned of by name, or the model is the
// same as before.
func TestLyingConfigurations(t *testing.T) {
	tried, refused, warned := 0, 0, 0
	for _, path := range configurations(t) {
		dir := filepath.Dir(path)
		d, err := modeldir.Open(dir)
		if err != nil {
			if strings.Contains(err.Error(), "not supported") {
				continue
			}
			t.Fatal(err)
		}
		if len(d.Model.Warnings) > 0 {
			t.Logf("%s: %v", dir, d.Model.Warnings)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var config map[string]any
		if err := json.Unmarshal(data, &config); err != nil {
			t.Fatal(err)
		}
		all := mutations("", config)
		if n, ok := config["num_hidden_layers"].(float64); ok && n > 1 {
			all = append(all, mutation{".num_hidden_layers", n - 1})
		}
		for _, m := range all {
			if slices.ContainsFunc(aboutTokens, func(s string) bool { return strings.Contains(m.path, s) }) {
				continue
			}
			lie := m.value
			if m.path != "" {
				lie = mutate(config, strings.Split(m.path[1:], "."), m.value)
			}
			text, err := json.Marshal(lie)
			if err != nil {
				t.Fatal(err)
			}
			tried++
			got, err := model.FromHF("config.json", text, d)
			switch {
			case err != nil:
				refused++
			case len(got.Warnings) > len(d.Model.Warnings):
				warned++
			case (!reflect.DeepEqual(got.Config, d.Model.Config) || got.Arch != d.Model.Arch) && fitsWeights(got):
				t.Errorf("%s: %s as %s is another model, without a word:\n%s", dir, m.path, short(m.value), differences(got.Config, d.Model.Config))
			}
		}
		d.Close()
	}
	t.Logf("%d configurations that lie: %d refused, %d warned of, the rest the same model", tried, refused, warned)
	if refused < tried/4 || warned == 0 {
		t.Error("hardly any was refused or warned of: the test does not test")
	}
}

// fitsWeights reports whether a model can be built of the weights of its files; where it cannot, the error names one that is missing or of another size.
func fitsWeights(m *model.Model) bool {
	_, err := m.Graph(model.Options{})
	return err == nil
}

func short(v any) string {
	text, _ := json.Marshal(v)
	return fmt.Sprintf("%.60s", text)
}

// differences names the fields of a configuration that differ.
func differences(a, b *model.Config) string {
	var all []string
	x, y := reflect.ValueOf(*a), reflect.ValueOf(*b)
	for i := range x.NumField() {
		if f, g := x.Field(i).Interface(), y.Field(i).Interface(); !reflect.DeepEqual(f, g) {
			all = append(all, fmt.Sprintf("  %s %.80v, was %.80v", x.Type().Field(i).Name, f, g))
		}
	}
	return strings.Join(all, "\n")
}
