package server_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
)

// writeAdapter writes a PEFT folder with a random adapter of the built-in model's query projections.
func writeAdapter(t *testing.T, dir string, seed uint64) string {
	t.Helper()
	const layers, hidden, rank = 8, 256, 4
	r := rand.New(rand.NewPCG(seed, 1))
	header, data := map[string]any{}, []byte{}
	for layer := range layers {
		for part, shape := range map[string][]int{"lora_A": {rank, hidden}, "lora_B": {hidden, rank}} {
			from := len(data)
			for range rank * hidden {
				data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(r.NormFloat64())))
			}
			header[fmt.Sprintf("base_model.model.model.layers.%d.self_attn.q_proj.%s.weight", layer, part)] = map[string]any{"dtype": "F32", "shape": shape, "data_offsets": []int{from, len(data)}}
		}
	}
	text, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	file := append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)
	for name, content := range map[string][]byte{
		"adapter_model.safetensors": append(file, data...),
		"adapter_config.json":       []byte(`{"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj"], "bias": "none"}`),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestAdapters(t *testing.T) {
	h, m := start(t, ridge.Options{MaxLoRAs: 2}, server.Options{})
	dir := t.TempDir()
	text := func(fields string) string {
		t.Helper()
		status, body := post(t, h, "/v1/completions", `{"prompt": "Once upon a time", "temperature": 0, "max_tokens": 8`+fields+`}`)
		if status != 200 {
			t.Fatalf("%s: %d %s", fields, status, body)
		}
		return parse(t, body).Choices[0].Text
	}
	base := text("")
	for i, name := range []string{"a", "b", "c"} {
		path := writeAdapter(t, filepath.Join(dir, name), uint64(i))
		if status, body := post(t, h, "/v1/load_lora_adapter", fmt.Sprintf(`{"lora_name": %q, "lora_path": %q}`, name, path)); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
	}
	a, b, c := text(`, "model": "a"`), text(`, "model": "b"`), text(`, "model": "c"`)
	if a == base || b == base || a == b || a != text(`, "model": "a"`) {
		t.Errorf("base %q, a %q, b %q, c %q", base, a, b, c)
	}
	if got := text(`, "lora": [{"id": 0, "scale": 1}]`); got != a {
		t.Errorf("adapter 0 says %q and a %q", got, a)
	}
	if got := text(`, "lora": [{"id": 0, "scale": 0}]`); got != base {
		t.Errorf("an adapter scaled by 0 says %q", got)
	}
	if both := text(`, "model": "a", "lora": [{"name": "b", "scale": 0.5}]`); both == a || both == b || both == base {
		t.Errorf("two adapters say %q", both)
	}
	if got := text(""); got != base {
		t.Errorf("without an adapter the answer was %q and is %q now", base, got)
	}
	embedWithAdapter(t, h, m.Name(), "a")
	status, body := get(t, h.URL+"/v1/models")
	if status != 200 || !strings.Contains(string(body), fmt.Sprintf(`"parent":%q`, m.Name())) {
		t.Errorf("%d %s", status, body)
	}
	if status, body := post(t, h, "/lora-adapters", `[{"id": 1, "scale": 1}]`); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	if status, body := post(t, h, "/v1/load_lora_adapter", fmt.Sprintf(`{"lora_name": "0 before all", "lora_path": %q}`, writeAdapter(t, filepath.Join(dir, "third"), 3))); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	if _, body := get(t, h.URL+"/lora-adapters"); !regexp.MustCompile(`"id":0,"name":"a".*"id":1,"name":"b".*"scale":1.*"id":2,"name":"c".*"id":3,"name":"0 before all"`).MatchString(body) {
		t.Errorf("numbers are not those that adapters had when they were loaded: %s", body)
	}
	if got := text(""); got != b {
		t.Errorf("with b applied to all the answer is %q; it should be %q", got, b)
	}
	if status, _ := post(t, h, "/v1/unload_lora_adapter", `{"lora_name": "b"}`); status != 200 {
		t.Error("b was not unloaded")
	}
	if got := text(""); got != base {
		t.Errorf("after unloading the answer is %q; it should be %q", got, base)
	}
	if status, body := post(t, h, "/v1/completions", `{"prompt": "Once", "model": "b"}`); status != 404 {
		t.Errorf("an unloaded adapter: %d %s", status, body)
	}
	good, bad := m.Defaults(), m.Defaults()
	good.Adapters, bad.Adapters = []ridge.UseAdapter{{Name: "a", Scale: 1}}, []ridge.UseAdapter{{Name: "b", Scale: 1}}
	if _, err := m.GenerateMany(t.Context(), []int32{1}, []ridge.Params{good, bad}); !errors.Is(err, ridge.ErrNoAdapter) {
		t.Errorf("answers of which one names an unloaded adapter: %v", err)
	}
	for _, a := range m.Adapters() {
		if a.Running+a.Waiting > 0 {
			t.Errorf("no request is left and adapter %s has %d running and %d waiting", a.Name, a.Running, a.Waiting)
		}
	}
	_, body = get(t, h.URL+"/metrics")
	if !strings.Contains(string(body), `vllm:lora_requests_info{max_lora="2"`) {
		t.Error("the metrics have no vllm:lora_requests_info")
	}
}

// embedWithAdapter checks that the adapter changes a text's vector.
func embedWithAdapter(t *testing.T, h *httptest.Server, base, adapter string) {
	t.Helper()
	embed := func(path, model string) string {
		t.Helper()
		status, body := post(t, h, path, fmt.Sprintf(`{"input": "Once upon a time", "model": %q}`, model))
		if status != 200 {
			t.Fatalf("%d %s", status, body)
		}
		return regexp.MustCompile(`"embeddings?":\[[^]]*`).FindString(string(body))
	}
	for _, path := range []string{"/v1/embeddings", "/api/embed"} {
		if of, its := embed(path, base), embed(path, adapter); of == its || of == "" {
			t.Errorf("%s gives the same vector with an adapter: %.60s", path, its)
		}
	}
}

// TestBadAdapters: what is wrong with an adapter is said in a sentence that names it.
func TestBadAdapters(t *testing.T) {
	h, _ := start(t, ridge.Options{MaxLoRAs: 1, MaxLoRARank: 4}, server.Options{})
	dir := t.TempDir()
	good := writeAdapter(t, filepath.Join(dir, "good"), 1)
	changed := func(name, old, new string) string {
		path := writeAdapter(t, filepath.Join(dir, name), 1)
		config := filepath.Join(path, "adapter_config.json")
		text, err := os.ReadFile(config)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(config, []byte(strings.Replace(string(text), old, new, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct{ name, path, want string }{
		{"a/b", good, "no slashes"},
		{"x", filepath.Join(dir, "missing"), "no such file"},
		{"x", changed("rank", `"r": 4`, `"r": 0`), "r is 0"},
		{"x", changed("other", `"r": 4`, `"r": 8`), "has rank 4"},
		{"x", changed("bias", `"none"`, `"all"`), "bias is"},
		{"x", changed("field", `"bias"`, `"use_magic": true, "bias"`), "use_magic"},
		{"x", changed("targets", `"q_proj"`, `"q_proj", "v_proj"`), "v_proj"},
		{"x", changed("kind", "LORA", "IA3"), "only LORA"},
	} {
		status, body := post(t, h, "/v1/load_lora_adapter", fmt.Sprintf(`{"lora_name": %q, "lora_path": %q}`, c.name, c.path))
		if status != 400 || !strings.Contains(string(body), c.want) {
			t.Errorf("%s: %d %s; it should say %q", c.path, status, body, c.want)
		}
	}
}
