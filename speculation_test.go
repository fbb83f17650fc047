package ridge_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/internal/simulate"
	"github.com/ridge-llm/ridge/internal/testkit/tensorfile"
	"github.com/ridge-llm/ridge/weights"
)

// TestSpeculationConfig: vLLM's configurations are read, and those that mean nothing are refused with what is wrong.
func TestSpeculationConfig(t *testing.T) {
	for text, want := range map[string]ridge.Speculation{
		`{"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4, "prompt_lookup_min": 1}`:   {Method: "ngram", Tokens: 3, LookupMin: 1, LookupMax: 4},
		`{"model": "[ngram]", "num_speculative_tokens": 3}`:                                                  {Method: "ngram", Tokens: 3},
		`{"method": "lookahead", "max_window_size": 5, "max_ngram_size": 3, "max_verification_set_size": 4}`: {Method: "lookahead", LookaheadWindow: 5, LookaheadNGram: 3, LookaheadPool: 4},
		`{"model": "small.gguf", "beside": ["ngram", "suffix"], "prompt_lookup_min": 3}`:                     {Method: "draft_model", Model: "small.gguf", Beside: []ridge.Speculation{{Method: "ngram", LookupMin: 3}, {Method: "suffix"}}},
		`{"method": "mtp", "beside": [{"model": "small.gguf", "num_speculative_tokens": 3}, {"method": "ngram", "prompt_lookup_max": 4}, "suffix"]}`: {
			Method: "mtp", Beside: []ridge.Speculation{{Method: "draft_model", Model: "small.gguf", Tokens: 3}, {Method: "ngram", LookupMax: 4}, {Method: "suffix"}}},
		`{"model": "small.gguf"}`: {Method: "draft_model", Model: "small.gguf"},
	} {
		var got ridge.Speculation
		if err := json.Unmarshal([]byte(text), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %+v (%v), want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		`{}`:                   "names no method",
		`{"method": "oracle"}`: `method "oracle"; ngram, suffix, lookahead, layerskip, draft_model, medusa, mtp, eagle and eagle3 are possible`,
		`{"method": "ngram", "num_speculative_tokens": 0}`:                        "num_speculative_tokens is 0",
		`{"method": "ngram", "num_speculative_tokens": 99}`:                       "drafts of 99 tokens",
		`{"method": "ngram", "model": "a.gguf"}`:                                  "no other method has one",
		`{"method": "draft_model"}`:                                               "draft_model, medusa, eagle and eagle3 need one",
		`{"model": "a.gguf", "prompt_lookup_max": 3}`:                             "settings of the method ngram",
		`{"method": "ngram", "tokens": 3}`:                                        `unknown field "tokens"`,
		`{"method": "lookahead", "max_window_size": 9}`:                           "must be at most 32",
		`{"method": "lookahead", "max_ngram_size": -1}`:                           "an n-gram 2",
		`{"method": "lookahead", "num_speculative_tokens": 3}`:                    "max_window_size, max_ngram_size and max_verification_set_size say how many",
		`{"method": "mtp", "eagle_topk": 17}`:                                     "1 to 16 are possible",
		`{"method": "ngram", "eagle_topk": 2}`:                                    "no other method has it",
		`{"method": "suffix", "beside": ["suffix"]}`:                              "each once",
		`{"method": "suffix", "beside": ["medusa"]}`:                              "and no other method has one (of the drafter beside suffix)",
		`{"method": "suffix", "beside": [{"method": "ngram", "always": true}]}`:   "settings of the first drafter",
		`{"method": "suffix", "beside": [{"method": "ngram", "tokens": 3}]}`:      `unknown field "tokens"`,
		`{"method": "suffix", "beside": ["ngram", "mtp", "lookahead", "ngram"]}`:  "up to 3 are possible",
		`{"method": "mtp", "beside": [{"method": "lookahead", "exit_layer": 2}]}`: "no other method has one",
		`{"method": "layerskip"}`:                                                 "layerskip needs one of at least 1",
		`{"method": "ngram", "exit_layer": 3}`:                                    "no other method has one",
		`{"method": "suffix", "max_window_size": 3}`:                              "settings of the method lookahead",
		`{"method": 3}`: "method is a JSON number",
		`[]`:            "it is a JSON array",
		`{"method": "ngram", "num_speculative_tokens": 2.5}`: "num_speculative_tokens is a JSON number 2.5",
	} {
		if err := json.Unmarshal([]byte(text), new(ridge.Speculation)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; it should say %q", text, err, want)
		}
	}
}

// answerOf is a model's greedy answer to a prompt.
func answerOf(t *testing.T, path string, o ridge.Options, prompt string) (string, ridge.Stats) {
	t.Helper()
	o.Deterministic, o.Threads = true, 1
	m, err := ridge.Load(path, o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p := m.Defaults()
	p.Sampling.Temperature, p.MaxTokens = 0, 80
	var text strings.Builder
	for piece, err := range m.Generate(context.Background(), prompt, p) {
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString(piece.Text)
	}
	return text.String(), m.Stats()
}

// TestSpeculationAnswers: with each method the answer is the one without.
func TestSpeculationAnswers(t *testing.T) {
	const prompt = "Once upon a time there was a fox named Pip. Once upon a time there was"
	want, stats := answerOf(t, "", ridge.Options{}, prompt)
	if stats.DraftMethod != "" || stats.Drafts != 0 {
		t.Errorf("without speculation: %+v", stats)
	}
	for _, s := range []ridge.Speculation{{Method: "ngram", LookupMin: 1, Always: true}, {Method: "ngram", Tokens: 3}, {Method: "suffix", Tokens: 7, Always: true},
		{Method: "lookahead", LookaheadWindow: 3, LookaheadNGram: 3, LookaheadPool: 3, Always: true}, {Method: "lookahead"},
		{Method: "layerskip", ExitLayer: 4, Always: true}, {Method: "layerskip", ExitLayer: 1},
		{Method: "layerskip", ExitLayer: 4, Beside: []ridge.Speculation{{Method: "ngram", LookupMin: 1}, {Method: "suffix"}}, Always: true},
		{Method: "layerskip", ExitLayer: 4, Beside: []ridge.Speculation{{Method: "lookahead"}, {Method: "suffix"}}},
		{Method: "lookahead", Beside: []ridge.Speculation{{Method: "layerskip", ExitLayer: 2, Tokens: 3}}, Always: true}} {
		got, stats := answerOf(t, "", ridge.Options{Speculation: s}, prompt)
		accepts := stats.AcceptedTokens > 0 || s.Method == "suffix" && stats.DraftTokens > 0 // whether the answer repeats anything depends on how the processor rounds
		if got != want || s.Always && !accepts || !strings.HasPrefix(stats.DraftMethod, s.Method) {
			t.Errorf("%+v: %q with %d of %d drafted tokens accepted; without drafts %q", s, got, stats.AcceptedTokens, stats.DraftTokens, want)
		}
	}
}

// TestDraftModel: the demo model with its draft model answers as it does alone; a model of another vocabulary is refused.
func TestDraftModel(t *testing.T) {
	const demo, small, other = "../shared/models/demo", "../shared/models/demo-draft", "../shared/models/stories260K/hf"
	if _, err := os.Stat(small); errors.Is(err, fs.ErrNotExist) {
		t.Skip("../shared, which has a draft model, is not here")
	}
	const prompt = "Once upon a time there was a fox named Pip."
	want, _ := answerOf(t, demo, ridge.Options{}, prompt)
	got, stats := answerOf(t, demo, ridge.Options{Speculation: ridge.Speculation{Method: "draft_model", Model: small, Always: true}}, prompt)
	if got != want || 3*stats.AcceptedTokens < stats.DraftTokens {
		t.Errorf("%q with %d of %d drafted tokens accepted; without drafts %q", got, stats.AcceptedTokens, stats.DraftTokens, want)
	}
	_, err := ridge.Load(demo, ridge.Options{Speculation: ridge.Speculation{Method: "draft_model", Model: other}})
	if err == nil || !strings.Contains(err.Error(), "the draft model knows 512 tokens and the model 4096") {
		t.Errorf("%v", err)
	}
}

// TestAdapterDrafts: with an adapter of the model and a drafter that knows none, on one device and on two that share layers, requests get what they
// get without drafts, those with the adapter and those without.
func TestAdapterDrafts(t *testing.T) {
	path := modelFile(t, "F32")
	drafters := map[string]ridge.Speculation{"ngram": {Method: "ngram", LookupMin: 1, Always: true}, "suffix": {Method: "suffix", Tokens: 5, Always: true}}
	const small = "../shared/models/demo-draft"
	if _, err := os.Stat(small); err == nil {
		drafters["draft model"] = ridge.Speculation{Method: "draft_model", Model: small, Always: true}
	}
	layouts := []ridge.Layout{{}, {Tensor: 2}}
	var want [2][][]int32 // with the adapter and without
	ask := func(what string, o ridge.Options) *ridge.Model {
		o.MaxLoRAs, o.Cache, o.Threads = 1, "f32", 1
		m := loadFrom(t, path, o)
		if _, err := m.AddAdapterDir("adapters"); err != nil {
			t.Fatal(err)
		}
		for i, use := range [][]ridge.UseAdapter{{{Name: "pirate", Scale: 1}}, nil} {
			got := answers(t, m, use...)
			if want[i] == nil {
				want[i] = got
			}
			if !reflect.DeepEqual(got, want[i]) {
				t.Errorf("%s, %d adapters: %v; without drafts %v", what, len(use), got, want[i])
			}
		}
		return m
	}
	ask("no drafts", ridge.Options{})
	if reflect.DeepEqual(want[0], want[1]) {
		t.Error("the adapter changes nothing")
	}
	for name, s := range drafters {
		for _, l := range layouts {
			m := ask(fmt.Sprintf("%s, %+v", name, l), ridge.Options{Speculation: s, Layout: l})
			if stats := m.Stats(); stats.AcceptedTokens == 0 || stats.AcceptedTokens == stats.DraftTokens {
				t.Errorf("%s, %+v: %d of %d drafted tokens were accepted", name, l, stats.AcceptedTokens, stats.DraftTokens)
			}
		}
	}
}

// TestMedusa: the demo model with its Medusa heads, whose drafts are trees, answers as it does alone; heads of another size are refused.
func TestMedusa(t *testing.T) {
	const demo, heads, other = "../shared/models/demo", "../shared/models/demo-medusa", "../shared/models/stories260K/hf"
	if _, err := os.Stat(heads); errors.Is(err, fs.ErrNotExist) {
		t.Skip("../shared, which has Medusa heads, is not here")
	}
	const prompt = "Once upon a time there was a fox named Pip."
	want, _ := answerOf(t, demo, ridge.Options{}, prompt)
	for _, tokens := range []int{4, 16} {
		got, stats := answerOf(t, demo, ridge.Options{Speculation: ridge.Speculation{Method: "medusa", Model: heads, Tokens: tokens, Always: true}}, prompt)
		t.Logf("%d steps, %d of %d drafted tokens accepted", stats.Steps, stats.AcceptedTokens, stats.DraftTokens)
		if got != want || 2*stats.AcceptedTokens < stats.Steps {
			t.Errorf("%q in %d steps with %d of %d drafted tokens accepted; without drafts %q", got, stats.Steps, stats.AcceptedTokens, stats.DraftTokens, want)
		}
	}
	_, err := ridge.Load(other, ridge.Options{Speculation: ridge.Speculation{Method: "medusa", Model: heads}})
	if err == nil || !strings.Contains(err.Error(), "tensor 0.lm.weight is 4096 × 256, and the model's hidden size and vocabulary ask for 512 × 64") {
		t.Errorf("%v", err)
	}
}

// TestMTPAnswers: the demo model with an MTP layer of random numbers answers as it does alone; a file without such a layer is refused.
func TestMTPAnswers(t *testing.T) {
	const demo = "../shared/models/demo"
	if _, err := os.Stat(demo); errors.Is(err, fs.ErrNotExist) {
		t.Skip("../shared, which has a model for an MTP layer, is not here")
	}
	const prompt = "Once upon a time there was a fox named Pip."
	want, _ := answerOf(t, demo, ridge.Options{}, prompt)
	dir := withMTPLayer(t, demo)
	for _, s := range []ridge.Speculation{{Method: "mtp", Tokens: 1, Always: true}, {Method: "mtp", Tokens: 7, Branch: 3, Always: true}, {Method: "deepseek_mtp", Tokens: 3, Always: true}, {Method: "mtp"}} {
		got, stats := answerOf(t, dir, ridge.Options{Speculation: s}, prompt)
		if got != want || s.Always && stats.Drafts == 0 || stats.DraftMethod != "mtp" {
			t.Errorf("%+v: %q with %d drafts; without %q", s, got, stats.Drafts, want)
		}
	}
	_, err := ridge.Load(demo, ridge.Options{Speculation: ridge.Speculation{Method: "mtp"}})
	if err == nil || !strings.Contains(err.Error(), "the file has no layers that predict further tokens (MTP)") {
		t.Error(err)
	}
}

// withMTPLayer is a folder with the demo model and an MTP layer of random numbers, in a file beside.
func withMTPLayer(t *testing.T, demo string) string {
	t.Helper()
	dir := t.TempDir()
	from, err := filepath.Abs(demo)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"} {
		if err := os.Symlink(filepath.Join(from, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	source, err := weights.Open(demo)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	index := map[string]string{}
	for _, name := range source.Names() {
		index[name] = "model.safetensors"
	}
	list := randomTensors(append(blockOf("mtp.layers.0", 256), size{"mtp.fc", 256, 512}, size{"mtp.pre_fc_norm_embedding", 1, 256}, size{"mtp.pre_fc_norm_hidden", 1, 256}, size{"mtp.norm", 1, 256}))
	for _, x := range list {
		index[x.Name] = "mtp.safetensors"
	}
	text, err := json.Marshal(map[string]any{"weight_map": index})
	if err := errors.Join(err, tensorfile.Write(filepath.Join(dir, "mtp.safetensors"), list), os.WriteFile(filepath.Join(dir, "model.safetensors.index.json"), text, 0o644)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestRecordedDrafts: with drafts a recording holds them, changes no answer, and replays to the same steps.
func TestRecordedDrafts(t *testing.T) {
	const prompt = "Once upon a time there was a fox named Pip. Once upon a time there was"
	want, _ := answerOf(t, "", ridge.Options{}, prompt)
	for _, s := range []ridge.Speculation{{Method: "ngram", LookupMin: 1, Always: true}, {Method: "suffix"}} {
		var file bytes.Buffer
		got, stats := answerOf(t, "", ridge.Options{Speculation: s, Record: &file}, prompt)
		if got != want || s.Always && stats.AcceptedTokens == 0 {
			t.Errorf("%+v, recorded: %q with %d tokens accepted; without drafts %q", s, got, stats.AcceptedTokens, want)
		}
		r, err := simulate.ReadRecording("test", &file)
		if err != nil {
			t.Fatal(err)
		}
		if c, _, err := simulate.Replay(r); err != nil || c.Differs != "" || c.Steps == 0 {
			t.Errorf("%+v: %+v, %v", s, c, err)
		}
	}
}

// size is a weight's name, without its end, and shape.
type size struct {
	name       string
	rows, cols int
}

// blockOf is the weights of a decoder layer of the demo model's sizes, whose attention reads rows of some width.
func blockOf(layer string, width int) []size {
	return []size{
		{layer + ".input_layernorm", 1, 256}, {layer + ".post_attention_layernorm", 1, 256},
		{layer + ".self_attn.q_proj", 256, width}, {layer + ".self_attn.k_proj", 128, width}, {layer + ".self_attn.v_proj", 128, width}, {layer + ".self_attn.o_proj", 256, 256},
		{layer + ".mlp.gate_proj", 768, 256}, {layer + ".mlp.up_proj", 768, 256}, {layer + ".mlp.down_proj", 256, 768},
	}
}

// randomTensors are small random numbers.
func randomTensors(sizes []size) (list []tensorfile.Tensor) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, s := range sizes {
		x := tensorfile.Tensor{Name: s.name + ".weight", DType: "F32", Shape: []int{s.rows, s.cols}}
		if s.rows == 1 {
			x.Shape = x.Shape[1:]
		}
		for range s.rows * s.cols {
			x.Data = binary.LittleEndian.AppendUint32(x.Data, math.Float32bits(float32(random.NormFloat64()/16)))
		}
		list = append(list, x)
	}
	return list
}

// TestEagleAnswers: the demo model with EAGLE layers of random numbers answers as it does alone; --model-draft takes them for what they are.
func TestEagleAnswers(t *testing.T) {
	const demo = "../shared/models/demo"
	config, err := os.ReadFile(demo + "/config.json")
	if err != nil {
		t.Skip("../shared, which has a model to draft for, is not here")
	}
	write := func(config string, list []tensorfile.Tensor) string {
		dir := t.TempDir()
		if err := errors.Join(os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o644), tensorfile.Write(filepath.Join(dir, "model.safetensors"), list)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	one := write(string(config), randomTensors(append(blockOf("layers.0", 256), size{"fc", 256, 512})))
	list := randomTensors(append(blockOf("midlayer", 512), size{"midlayer.hidden_norm", 1, 256}, size{"norm", 1, 256}, size{"fc", 256, 768}, size{"lm_head", 300, 256}))
	ids := tensorfile.Tensor{Name: "d2t", DType: "I64", Shape: []int{300}}
	for i := range uint64(300) {
		ids.Data = binary.LittleEndian.AppendUint64(ids.Data, 7*i)
	}
	small := strings.Replace(string(config), "{", `{"draft_vocab_size": 300,`, 1)
	three := write(small, append(list, ids))
	const prompt = "Once upon a time there was a fox named Pip."
	want, _ := answerOf(t, demo, ridge.Options{}, prompt)
	for method, s := range map[string]ridge.Speculation{"eagle": {Method: "draft_model", Model: one, Tokens: 2, Always: true}, "eagle3": {Method: "eagle3", Model: three, Tokens: 8, Branch: 4, Always: true}} {
		got, stats := answerOf(t, demo, ridge.Options{Speculation: s}, prompt)
		if got != want || stats.Drafts == 0 || stats.DraftMethod != method {
			t.Errorf("%+v: %q with %d drafts by %s; without %q", s, got, stats.Drafts, stats.DraftMethod, want)
		}
	}
	for want, s := range map[string]ridge.Speculation{
		"is of the method eagle3, and eagle is given": {Method: "eagle", Model: three},
		"has no tensor d2t":                           {Method: "eagle3", Model: write(small, list)},
	} {
		if _, err := ridge.Load(demo, ridge.Options{Speculation: s}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v; it should say %q", s, err, want)
		}
	}
}

// TestComputedBeside: drafters that compute, from the model's hidden states and with a model of their own, beside one another, in every order: the answer is the one without.
func TestComputedBeside(t *testing.T) {
	const demo, heads, small = "../shared/models/demo", "../shared/models/demo-medusa", "../shared/models/demo-draft"
	config, err := os.ReadFile(demo + "/config.json")
	if err != nil {
		t.Skip("../shared, which has a model to draft for, is not here")
	}
	layer := t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(layer, "config.json"), config, 0o644),
		tensorfile.Write(filepath.Join(layer, "model.safetensors"), randomTensors(append(blockOf("layers.0", 256), size{"fc", 256, 512})))); err != nil {
		t.Fatal(err)
	}
	const prompt = "Once upon a time there was a fox named Pip."
	want, _ := answerOf(t, demo, ridge.Options{}, prompt)
	all := []ridge.Speculation{{Method: "medusa", Model: heads, Tokens: 8}, {Method: "draft_model", Model: small}, {Method: "eagle", Model: layer, Tokens: 3}, {Method: "suffix"}}
	for first := range all {
		s := all[first]
		s.Beside = append(slices.Clone(all[first+1:]), all[:first]...)
		for _, always := range []bool{true, false} {
			s.Always = always
			got, stats := answerOf(t, demo, ridge.Options{Speculation: s}, prompt)
			if got != want || always && stats.AcceptedTokens == 0 || stats.MaxDraft != 8 {
				t.Errorf("%+v: %q with %d of %d drafted tokens accepted; without drafts %q", s, got, stats.AcceptedTokens, stats.DraftTokens, want)
			}
		}
	}
}
