package convert

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/internal/modeldir"
)

// TestAdapterOfOtherHeads: an adapter in PEFT's form fits a folder with its order of value heads, and is refused for a GGUF file, which has another.
func TestAdapterOfOtherHeads(t *testing.T) {
	dir := filepath.Join(shared, "reference/architectures/qwen3.5")
	if !exists(dir) {
		t.Skip("the reference models are not here")
	}
	adapter := t.TempDir()
	header, data := map[string]any{}, []byte{}
	for part, shape := range map[string][]int{"lora_A": {4, 64}, "lora_B": {64, 4}} {
		from := len(data)
		data = append(data, make([]byte, 4*4*64)...)
		header[fmt.Sprintf("base_model.model.model.layers.0.linear_attn.out_proj.%s.weight", part)] = map[string]any{"dtype": "F32", "shape": shape, "data_offsets": []int{from, len(data)}}
	}
	text, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"adapter_model.safetensors": append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...), data...),
		"adapter_config.json":       []byte(`{"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["layers.0.linear_attn.out_proj"], "bias": "none"}`),
	} {
		if err := os.WriteFile(filepath.Join(adapter, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(t.TempDir(), "m.gguf")
	if _, err := Convert(t.Context(), dir, out, Options{}); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{dir: "", out: "take a model of the adapter's kind"} {
		b, err := modeldir.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		a, _, err := fit(b, adapter)
		if err == nil {
			a.Close()
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, and one with %q is wanted", path, err, want)
		}
	}
}
