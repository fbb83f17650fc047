package main

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/internal/builtin"
)

// prompt is what a conversation becomes for a model.
func (s *managed) prompt(model, messages string) string {
	s.t.Helper()
	var p struct{ Prompt string }
	if err := json.Unmarshal([]byte(s.call("", http.MethodPost, "/apply-template", fmt.Sprintf(`{"model": %q, "messages": %s}`, model, messages), 200)), &p); err != nil {
		s.t.Fatal(err)
	}
	return p.Prompt
}

// generated is Ollama's answer to a prompt.
func (s *managed) generated(model, more string) (a struct {
	Response string
	Count    int    `json:"eval_count"`
	Reason   string `json:"done_reason"`
	Model    string
}) {
	s.t.Helper()
	if err := json.Unmarshal([]byte(s.call("", http.MethodPost, "/api/generate", fmt.Sprintf(`{"model": %q, "stream": false, "raw": true, "prompt": "Once upon a time"%s}`, model, more), 200)), &a); err != nil {
		s.t.Fatal(err)
	}
	return a
}

// modelfile is a Modelfile as people write them.
const modelfile = `# a plumber
FROM mine
PARAMETER temperature 0
PARAMETER num_predict 5
PARAMETER stop "princess"
PARAMETER stop mushroom
parameter num_ctx 96
SYSTEM """You are Mario.
It is "you"."""
MESSAGE user Who are you?
MESSAGE assistant It's me.
TEMPLATE """{{ range .Messages }}<{{ .Role }}>{{ .Content }}
{{ end }}<assistant>"""
LICENSE MIT
`

// TestCreate: a model that was created has its own system prompt, first messages, template and parameters in every API, from the fields and from a Modelfile, until it is deleted.
func TestCreate(t *testing.T) {
	s := startManaged(t)
	file, err := json.Marshal(modelfile)
	if err != nil {
		t.Fatal(err)
	}
	s.says(s.call("", http.MethodPost, "/api/create", `{"name": "mario:latest", "modelfile": `+string(file)+`}`, 200), `{"status":"success"}`)
	s.says(s.call("", http.MethodPost, "/api/create", `{"model": "mario2", "from": "mine", "stream": false, "parameters": {"temperature": 0, "num_predict": 5, "stop": ["princess", "mushroom"], "num_ctx": 96},
		"system": "You are Mario.\nIt is \"you\".", "messages": [{"role": "user", "content": "Who are you?"}, {"role": "assistant", "content": "It's me."}],
		"template": "{{ range .Messages }}<{{ .Role }}>{{ .Content }}\n{{ end }}<assistant>", "license": ["MIT"]}`, 200), "success")
	const talk = "<user>Who are you?\n<assistant>It's me.\n<user>Hi\n<assistant>"
	for _, name := range []string{"mario", "mario2"} {
		if got, want := s.prompt(name, `[{"role": "user", "content": "Hi"}]`), "<system>You are Mario.\nIt is \"you\".\n"+talk; !strings.HasSuffix(got, want) {
			t.Errorf("%s: the prompt is %q, want %q", name, got, want)
		}
		if got, want := s.prompt(name, `[{"role": "system", "content": "S"}, {"role": "user", "content": "Hi"}]`), "<system>S\n"+talk; !strings.HasSuffix(got, want) {
			t.Errorf("%s: the prompt with a system message is %q, want %q", name, got, want)
		}
		if a := s.generated(name, ""); a.Count != 5 || a.Reason != "length" || a.Model != name {
			t.Errorf("%s: %+v", name, a)
		}
		if a := s.generated(name, `, "options": {"num_predict": 2}`); a.Count != 2 {
			t.Errorf("%s: asked for 2 tokens: %+v", name, a)
		}
		s.says(s.call("", http.MethodPost, "/v1/chat/completions", `{"messages": [{"role": "user", "content": "Hi"}], "ignore_eos": true, "model": "`+name+`"}`, 200), `"completion_tokens":5`)
		shown := s.call("", http.MethodPost, "/api/show", `{"model": "`+name+`"}`, 200)
		for _, want := range []string{`"system":"You are Mario.`, `"license":"MIT"`, `num_predict `, `mushroom`, `"role":"assistant"`, `FROM `} {
			s.says(shown, want)
		}
		s.says(s.call("", http.MethodGet, "/api/ps", "", 200), `"context_length":96`)
		s.says(s.call("", http.MethodGet, "/api/tags", "", 200), `"name":"`+name+`"`)
	}
	// One made of it has what it does not say otherwise; one that is created again is another.
	s.call("", http.MethodPost, "/api/create", `{"model": "luigi", "from": "mario", "system": "You are Luigi.", "parameters": {"num_predict": 3}}`, 200)
	if got := s.prompt("luigi", `[{"role": "user", "content": "Hi"}]`); !strings.HasSuffix(got, "<system>You are Luigi.\n"+talk) {
		t.Errorf("luigi: %q", got)
	}
	if a := s.generated("luigi", ""); a.Count != 3 {
		t.Errorf("luigi: %+v", a)
	}
	time.Sleep(10 * time.Millisecond) // files may have coarse times
	s.call("", http.MethodPost, "/api/create", `{"model": "luigi", "from": "mine", "parameters": {"num_predict": 1}}`, 200)
	if a := s.generated("luigi", ""); a.Count != 1 {
		t.Errorf("luigi created again: %+v", a)
	}
	// A copy is a model of its own. Another name of what it is made of is not its name.
	s.call("", http.MethodPost, "/api/copy", `{"source": "luigi", "destination": "copied"}`, 200)
	s.call("", http.MethodPost, "/api/copy", `{"source": "mine", "destination": "other"}`, 200)
	s.says(s.call("", http.MethodPost, "/api/copy", `{"source": "luigi", "destination": "other"}`, 400), "is another name of a model")
	if a := s.generated("copied", ""); a.Count != 1 {
		t.Errorf("a copy: %+v", a)
	}
	if n := strings.Count(s.call("", http.MethodGet, "/api/tags", "", 200), `"name":"other"`); n != 1 {
		t.Errorf("other is listed %d times", n)
	}
	for _, name := range []string{"luigi", "copied", "mario", "mario2"} {
		s.call("", http.MethodDelete, "/api/delete", `{"model": "`+name+`"}`, 200)
		s.call("", http.MethodPost, "/api/generate", `{"model": "`+name+`", "prompt": "x"}`, 404)
	}
	s.call("", http.MethodPost, "/v1/chat/completions", chatOf+`"mine"}`, 200)
}

// TestCreateOfFiles: a file that was sent becomes a model, and stays while one is made of it.
func TestCreateOfFiles(t *testing.T) {
	s := startManaged(t)
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256(builtin.GGUF()))
	s.call("", http.MethodHead, "/api/blobs/"+digest, "", 404)
	s.says(s.call("", http.MethodPost, "/api/create", `{"model": "own", "files": {"own.gguf": "`+digest+`"}}`, 400), "has not been sent")
	s.says(s.call("", http.MethodPost, "/api/blobs/"+digest, "something else", 400), "another digest")
	s.says(s.call("", http.MethodPost, "/api/blobs/sha256:12", "x", 400), "is no digest")
	s.call("", http.MethodPost, "/api/blobs/"+digest, string(builtin.GGUF()), 201)
	s.call("", http.MethodHead, "/api/blobs/"+digest, "", 200)
	s.call("", http.MethodPost, "/api/create", `{"model": "own", "files": {"own.gguf": "`+digest+`"}}`, 200)
	s.call("", http.MethodPost, "/api/create", `{"model": "own2", "modelfile": "FROM @`+digest+`\nSYSTEM Hi"}`, 200)
	s.call("", http.MethodPost, "/api/create", `{"model": "of-own", "from": "own", "system": "Be brief."}`, 200)
	want := s.generated("mine", `, "options": {"temperature": 0, "num_predict": 6}`).Response
	for _, name := range []string{"own", "own2", "of-own"} {
		if got := s.generated(name, `, "options": {"temperature": 0, "num_predict": 6}`).Response; got == "" {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := s.generated("own", `, "options": {"temperature": 0, "num_predict": 6}`).Response; got != want {
		t.Errorf("own says %q, and the same file %q", got, want)
	}
	s.call("", http.MethodDelete, "/api/delete", `{"model": "own"}`, 200)
	if got := s.generated("of-own", `, "options": {"num_predict": 2}`).Response; got == "" {
		t.Error("what was made of a deleted model has gone with it")
	}
	left, err := filepath.Glob(filepath.Join(os.Getenv("XDG_DATA_HOME"), "ridge", "models", "*", "files", "*.gguf"))
	if err != nil || len(left) != 2 {
		t.Errorf("%v are left, %v", left, err)
	}
}

// TestCreateQuantized: a model that was made in another number format, of another one or of a file, has weights of its own in it, with the system prompt and the parameters of what it is made of.
func TestCreateQuantized(t *testing.T) {
	s := startManaged(t)
	s.call("", http.MethodPost, "/api/create", `{"model": "brief", "from": "mine", "system": "Be brief.", "parameters": {"num_predict": 3}}`, 200)
	s.call("", http.MethodPost, "/api/create", `{"model": "small", "from": "mine", "quantize": "q4_0"}`, 200)
	s.call("", http.MethodPost, "/api/create", `{"model": "small-brief", "from": "brief", "quantize": "Q4_0", "stream": false}`, 200)
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256(builtin.GGUF()))
	s.call("", http.MethodPost, "/api/blobs/"+digest, string(builtin.GGUF()), 201)
	s.call("", http.MethodPost, "/api/create", `{"model": "small-own", "files": {"own.gguf": "`+digest+`"}, "quantization": "q4_0"}`, 200)
	for _, name := range []string{"small", "small-brief", "small-own"} {
		s.says(s.call("", http.MethodPost, "/api/show", `{"model": "`+name+`"}`, 200), `"quantization_level":"Q4_0"`)
		if a := s.generated(name, `, "options": {"temperature": 0}`); a.Count == 0 || (a.Count == 3) != (name == "small-brief") {
			t.Errorf("%s: %+v", name, a)
		}
	}
	if got := s.prompt("small-brief", `[{"role": "user", "content": "Hi"}]`); !strings.Contains(got, "Be brief.") {
		t.Errorf("%q", got)
	}
}

// TestCreateRefused: what is not done or wrong is refused by name, and nothing is made of it.
func TestCreateRefused(t *testing.T) {
	s := startManaged(t)
	for body, why := range map[string]string{
		`{"model": "m"}`:                                                       "from is missing",
		`{"from": "mine"}`:                                                     "model is missing",
		`{"model": "mine", "from": "mine"}`:                                    "there is a model",
		`{"model": "llama3.2", "from": "mine"}`:                                "means one of the hub",
		`{"model": "a b", "from": "mine"}`:                                     "cannot be a model's name",
		`{"model": "m", "from": "mine", "quantize": "q9_9"}`:                   "there is no type",
		`{"model": "m", "from": "mine", "parameters": {"temprature": 1}}`:      "no parameter temprature",
		`{"model": "m", "from": "mine", "parameters": {"temperature": "hot"}}`: "parameter temperature",
		`{"model": "m", "from": "mine", "parameters": {"tfs_z": 0.5}}`:         "tfs_z is not supported",
		`{"model": "m", "from": "mine", "parameters": {"num_ctx": -1}}`:        "num_ctx is -1",
		`{"model": "m", "from": "mine", "template": "{{ .Foo }}"}`:             "there is no .Foo",
		`{"model": "m", "from": "mine", "messages": [{"role": "robot"}]}`:      "robot",
		`{"model": "m", "from": "mine", "files": {"a": "b"}}`:                  "both given",
		`{"model": "m", "files": {"../a.gguf": "sha256:12"}}`:                  "without folders",
		`{"model": "m", "modelfile": "FROM mine\nPARAMETER temperature hot"}`:  "a number, true or false",
		`{"model": "m", "modelfile": "FROM mine\nSYSTEM \"\"\"open"}`:          "is not closed",
		`{"model": "m", "modelfile": "FROM mine\nADAPTER ./a.gguf"}`:           "@sha256",
		`{"model": "m", "modelfile": "FROM mine\nTHINK hard"}`:                 "THINK is not an instruction",
		`{"model": "m", "modelfile": "FROM"}`:                                  "has no value",
	} {
		s.says(s.call("", http.MethodPost, "/api/create", body, 400), why)
	}
	s.says(s.call("", http.MethodPost, "/api/create", `{"model": "m", "from": "nothing"}`, 404), "there is no model")
	s.call("", http.MethodPost, "/api/generate", `{"model": "m", "prompt": "x"}`, 404)
	s.says(s.call("", http.MethodPost, "/api/push", `{"model": "mine"}`, 501), "/api/push is not done")
	s.says(s.call("", http.MethodPost, "/api/me", "", 501), "/api/push is not done")
}

// adapterOf is the files of an adapter of the built-in model's query projections, with large numbers.
func adapterOf(t *testing.T) map[string]string {
	t.Helper()
	const layers, hidden, rank = 8, 256, 2
	var data []byte
	header := map[string]any{}
	for layer := range layers {
		for _, x := range []struct {
			name       string
			rows, cols int
		}{{"lora_A", rank, hidden}, {"lora_B", hidden, rank}} {
			from := len(data)
			for i := range x.rows * x.cols {
				data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(math.Sin(float64(7*i+layer)))))
			}
			header[fmt.Sprintf("base_model.model.model.layers.%d.self_attn.q_proj.%s.weight", layer, x.name)] = map[string]any{"dtype": "F32", "shape": []int{x.rows, x.cols}, "data_offsets": []int{from, len(data)}}
		}
	}
	text, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		"adapter_config.json":       `{"peft_type": "LORA", "r": 2, "lora_alpha": 2, "target_modules": ["q_proj"]}`,
		"adapter_model.safetensors": string(binary.LittleEndian.AppendUint64(nil, uint64(len(text)))) + string(text) + string(data),
	}
}

// TestCreateAdapter: an adapter that was sent acts on all that a created model answers, and on nothing of the model that it was made of.
func TestCreateAdapter(t *testing.T) {
	s := startManaged(t)
	digests := map[string]string{}
	for name, content := range adapterOf(t) {
		digests[name] = fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(content)))
		s.call("", http.MethodPost, "/api/blobs/"+digests[name], content, 201)
	}
	files, err := json.Marshal(digests)
	if err != nil {
		t.Fatal(err)
	}
	s.call("", http.MethodPost, "/api/create", `{"model": "tuned", "from": "mine", "adapters": `+string(files)+`}`, 200)
	const greedy = `, "options": {"temperature": 0, "num_predict": 12}`
	base := s.generated("mine", greedy).Response
	tuned := s.generated("tuned", greedy)
	if tuned.Response == base || tuned.Model != "tuned" {
		t.Errorf("with the adapter: %+v, without: %q", tuned, base)
	}
	if again := s.generated("mine", greedy).Response; again != base {
		t.Errorf("%q, and %q once the adapter was used", base, again)
	}
	if list := s.call("", http.MethodGet, "/v1/models", "", 200); strings.Contains(list, "tuned+adapter") {
		t.Errorf("the adapter is listed as a model: %s", list)
	}
	s.says(s.call("", http.MethodPost, "/api/create", `{"model": "twice", "from": "tuned", "adapters": `+string(files)+`}`, 400), "has an adapter already")
	s.call("", http.MethodPost, "/api/create", `{"model": "named", "from": "tuned", "system": "Hi"}`, 200)
	if got := s.generated("named", greedy).Response; got != tuned.Response {
		t.Errorf("made of the tuned one: %q, want %q", got, tuned.Response)
	}
}
