package convert

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/quant"
)

// TestMixtures compares the formats of every matrix with those that llama-quantize chooses for models of 8, 12 and 32
// layers: without and with rows that do not fit, with queries, keys and values apart and in one.
func TestMixtures(t *testing.T) {
	data, err := os.ReadFile("testdata/mixtures.txt")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]*file{"demo": demoFile(t), "gpt2": shapeFile(t, "gpt2"), "smollm2-360m": shapeFile(t, "smollm2-360m")}
	checked := 0
	for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n")[1:] {
		words := strings.Fields(line)
		f, typeName, name := files[words[0]], words[1], words[2]
		typ, err := ParseType(typeName)
		if err != nil {
			t.Fatal(err)
		}
		f.choose(typ, Ends{}, false)
		var got []string
		for i := range f.tensors {
			if x := &f.tensors[i]; x.name == name+".weight" || strings.HasPrefix(x.name, "blk.") && strings.HasSuffix(x.name, "."+name+".weight") {
				got = append(got, x.as.String())
			}
		}
		if g, want := strings.Join(runs(got), " "), strings.Join(words[3:], " "); g != want {
			t.Errorf("%s in %s: %s is %s and should be %s", words[0], typeName, name, g, want)
		}
		checked++
	}
	if checked < 200 {
		t.Errorf("only %d lines were there to check", checked)
	}
}

// runs counts equal neighbours: "Q6_K×2".
func runs(list []string) []string {
	var out []string
	for i := 0; i < len(list); {
		j := i
		for j < len(list) && list[j] == list[i] {
			j++
		}
		out = append(out, fmt.Sprintf("%s×%d", list[i], j-i))
		i = j
	}
	return out
}

func demoFile(t *testing.T) *file {
	t.Helper()
	b, err := modeldir.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	f, _, err := fromGGUF(b.Source, b.Source.Names(), b.Source.Tensor)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func shapeFile(t *testing.T, name string) *file {
	t.Helper()
	m, err := model.Shape(name)
	if err != nil {
		t.Fatal(err)
	}
	e, err := m.Export()
	if err != nil {
		t.Fatal(err)
	}
	f := &file{meta: e.Meta}
	for _, x := range e.Tensors {
		f.tensors = append(f.tensors, inGGUF(x))
	}
	return f
}

func TestParseType(t *testing.T) {
	for name, want := range map[string]string{"": "", "q8_0": "Q8_0", "Q4_K": "Q4_K_M", "bf16": "BF16", "Q3_K_L": "Q3_K_L"} {
		if got, err := ParseType(name); err != nil || got.Name != want {
			t.Errorf("%q is %q, %v", name, got.Name, err)
		}
	}
	if _, err := ParseType("Q4_5"); err == nil || !strings.Contains(err.Error(), `"Q4_5"`) || !strings.Contains(err.Error(), "Q4_K_M") {
		t.Errorf("an unknown type gives %v", err)
	}
}

// TestTypesCoverFormats: every number format can be written.
func TestTypesCoverFormats(t *testing.T) {
	for _, f := range quant.Formats() {
		found := false
		for _, typ := range types {
			found = found || typ.Format == f
		}
		if !found {
			t.Errorf("no type writes %s", f)
		}
	}
}

func TestFits(t *testing.T) {
	for _, c := range []struct {
		want quant.Format
		cols int
		got  quant.Format
	}{
		{quant.Q4_K, 512, quant.Q4_K}, {quant.Q4_K, 320, quant.Q5_0}, {quant.Q5_K, 320, quant.Q5_1}, {quant.Q6_K, 320, quant.Q8_0},
		{quant.Q2_K, 320, quant.Q4_0}, {quant.Q3_K, 320, quant.Q4_0}, {quant.Q4_K, 80, quant.F16}, {quant.Q8_0, 80, quant.F16}, {quant.BF16, 7, quant.BF16},
	} {
		if got := formatFor(c.want, c.cols); got != c.got {
			t.Errorf("%s for rows of %d becomes %s and should be %s", c.want, c.cols, got, c.got)
		}
	}
}
