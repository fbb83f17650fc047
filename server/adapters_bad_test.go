package server_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
)

// peft is an adapter of the built-in model's query projections, or of what is like them, as a PEFT folder.
type peft struct {
	hidden, rank int
	module       string // of each layer
	first        uint32 // the bits of the first number of all
	extra        string // a tensor more
}

// builtinPEFT fits the built-in model.
var builtinPEFT = peft{hidden: 256, rank: 4, module: "self_attn.q_proj"}

// write writes the folder with random numbers.
func (p peft) write(t *testing.T, dir string, seed uint64) string {
	t.Helper()
	const layers = 8
	r := rand.New(rand.NewPCG(seed, 1))
	header, data := map[string]any{}, []byte{}
	add := func(name string, rows, cols int) {
		from := len(data)
		for range rows * cols {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(r.NormFloat64())))
		}
		header["base_model.model.model."+name] = map[string]any{"dtype": "F32", "shape": []int{rows, cols}, "data_offsets": []int{from, len(data)}}
	}
	for layer := range layers {
		name := fmt.Sprintf("layers.%d.%s", layer, p.module)
		add(name+".lora_A.weight", p.rank, p.hidden)
		add(name+".lora_B.weight", p.hidden, p.rank)
	}
	if p.extra != "" {
		add(p.extra, 4, 4)
	}
	if p.first != 0 {
		binary.LittleEndian.PutUint32(data, p.first)
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
		"adapter_config.json":       fmt.Appendf(nil, `{"peft_type": "LORA", "r": %d, "lora_alpha": 8, "target_modules": [%q], "bias": "none"}`, p.rank, filepath.Ext(p.module)[1:]),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestBadAdapters: what is wrong with an adapter is said in a sentence that names it, when it is loaded, and when the first request has it read from
// the folder of --lora-dir.
func TestBadAdapters(t *testing.T) {
	h, m := start(t, ridge.Options{Threads: 1, MaxLoRAs: 1, MaxLoRARank: 4}, server.Options{})
	dir := t.TempDir()
	good := builtinPEFT.write(t, filepath.Join(dir, "good"), 1)
	changed := func(name, old, new string) string {
		path := builtinPEFT.write(t, filepath.Join(dir, name), 1)
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
	with := func(name string, change func(*peft)) string {
		p := builtinPEFT
		change(&p)
		return p.write(t, filepath.Join(dir, name), 1)
	}
	if err := os.WriteFile(filepath.Join(dir, "plain.txt"), []byte("no adapter"), 0o644); err != nil {
		t.Fatal(err)
	}
	cut := builtinPEFT.write(t, filepath.Join(dir, "cut"), 1)
	if err := os.Truncate(filepath.Join(cut, "adapter_model.safetensors"), 5000); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, path, want string }{
		{"a/b", good, "no slashes"},
		{" ", good, "no spaces at its ends"},
		{"..", good, "neither . nor .."},
		{strings.Repeat("x", 1000), good, strings.Repeat("x", 80) + `\" cannot be the name`},
		{"x", filepath.Join(good, "..", "plain.txt"), "plain.txt is neither a GGUF adapter nor the folder of a PEFT adapter"},
		{m.Name(), good, "the model itself"},
		{"x", filepath.Join(dir, "missing"), "no such file"},
		{"x", changed("rank", `"r": 4`, `"r": 0`), "r is 0"},
		{"x", changed("other", `"r": 4`, `"r": 8`), "has rank 4"},
		{"x", changed("bias", `"none"`, `"all"`), "bias is"},
		{"x", changed("field", `"bias"`, `"use_magic": true, "bias"`), "use_magic"},
		{"x", changed("targets", `"q_proj"`, `"q_proj", "v_proj"`), "v_proj"},
		{"x", changed("kind", "LORA", "IA3"), "only LORA"},
		{"x", with("large", func(p *peft) { p.rank = 5 }), "above the bound of 4"},
		{"x", with("base", func(p *peft) { p.hidden = 128 }), "the adapter is of another base"},
		{"x", with("module", func(p *peft) { p.module = "self_attn.z_proj" }), "changes module model.layers.0.self_attn.z_proj"},
		{"x", with("nan", func(p *peft) { p.first = 0x7fc00000 }), "infinite or not a number"},
		{"x", with("inf", func(p *peft) { p.first = 0xff800000 }), "infinite or not a number"},
		{"x", with("key", func(p *peft) { p.extra = "layers.0.self_attn.q_proj.lora_magic" }), "lora_magic"},
		{"x", cut, "adapter_model.safetensors"},
	} {
		status, body := post(t, h, "/v1/load_lora_adapter", fmt.Sprintf(`{"lora_name": %q, "lora_path": %q}`, c.name, c.path))
		if status != 400 || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d %s; it should say %q", c.path, status, body, c.want)
		}
	}
	if _, err := m.AddAdapterDir(dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"rank": "r is 0", "large": "above the bound of 4", "base": "of another base", "nan": "not a number", "key": "lora_magic", "cut": "adapter_model.safetensors"} {
		status, body := post(t, h, "/v1/completions", fmt.Sprintf(`{"prompt": "Once", "model": %q, "max_tokens": 2}`, name))
		if status != 400 || !strings.Contains(body, want) {
			t.Errorf("a request for %s: %d %s; it should say %q", name, status, body, want)
		}
	}
	if status, body := post(t, h, "/v1/completions", `{"prompt": "Once", "model": "good", "max_tokens": 2}`); status != 200 {
		t.Errorf("a good adapter after bad ones: %d %s", status, body)
	}
}

// awaitAdapter waits until a request with an adapter runs.
func awaitAdapter(t *testing.T, m *ridge.Model, name, what string) {
	t.Helper()
	running := func(a ridge.Adapter) bool { return a.Name == name && a.Running > 0 }
	for deadline := time.Now().Add(time.Minute); !slices.ContainsFunc(m.Adapters(), running); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: the request does not run", what)
		}
	}
}

// TestAdaptersInUse: a request goes on as it began when its adapter's file is overwritten, cut or removed, and when the adapter is unloaded or replaced; new ones
// get 404, or the new adapter. Requests of more adapters than there are slots wait.
func TestAdaptersInUse(t *testing.T) {
	h, m := start(t, ridge.Options{Threads: 1, MaxLoRAs: 1}, server.Options{})
	dir := t.TempDir()
	for i, name := range []string{"a", "b", "c", "d"} {
		builtinPEFT.write(t, filepath.Join(dir, name), uint64(i))
	}
	if _, err := m.AddAdapterDir(dir); err != nil {
		t.Fatal(err)
	}
	ask := func(name string, tokens int) (int, string) {
		status, body := post(t, h, "/v1/completions", fmt.Sprintf(`{"prompt": "Once upon a time", "temperature": 0, "ignore_eos": true, "max_tokens": %d, "model": %q}`, tokens, name))
		if status != 200 {
			return status, body
		}
		return status, parse(t, body).Choices[0].Text
	}
	const long = 40
	want := map[string]string{}
	for _, name := range []string{"a", "b", "c", "d"} {
		_, want[name] = ask(name, long)
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			name := string(rune('a' + i%4))
			if status, got := ask(name, long); status != 200 || got != want[name] {
				t.Errorf("one of 8 requests for 4 adapters in one slot: %d %q; alone %s says %q", status, got, name, want[name])
			}
		})
	}
	all.Wait()

	during := func(what string, do func()) {
		t.Helper()
		all.Go(func() {
			if status, got := ask("a", long); status != 200 || got != want["a"] {
				t.Errorf("%s: %d %q; %q was begun", what, status, got, want["a"])
			}
		})
		awaitAdapter(t, m, "a", what)
		do()
		all.Wait()
	}
	file := filepath.Join(dir, "a", "adapter_model.safetensors")
	during("the file is overwritten", func() { builtinPEFT.write(t, filepath.Join(dir, "a"), 99) })
	during("the file is cut", func() {
		if err := os.Truncate(file, 1000); err != nil {
			t.Error(err)
		}
	})
	during("the file is removed", func() {
		if err := os.RemoveAll(filepath.Join(dir, "a")); err != nil {
			t.Error(err)
		}
	})
	other := builtinPEFT.write(t, filepath.Join(dir, "other"), 50)
	during("the adapter is replaced", func() {
		if status, body := post(t, h, "/v1/load_lora_adapter", fmt.Sprintf(`{"lora_name": "a", "lora_path": %q, "load_inplace": true}`, other)); status != 200 {
			t.Errorf("%d %s", status, body)
		}
	})
	if status, got := ask("a", long); status != 200 || got == want["a"] {
		t.Errorf("after it was replaced: %d %q", status, got)
	} else {
		want["a"] = got
	}
	during("the adapter is unloaded", func() {
		if status, body := post(t, h, "/v1/unload_lora_adapter", `{"lora_name": "a"}`); status != 200 {
			t.Errorf("%d %s", status, body)
		}
		if status, body := ask("a", 2); status != 404 {
			t.Errorf("a new request for an unloaded adapter: %d %s", status, body)
		}
	})
}
