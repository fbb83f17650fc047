package engine

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu"
	"github.com/ridge-llm/ridge/backend/ref"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/engine/draft/hiddenmodel"
	"github.com/ridge-llm/ridge/engine/draft/layerskip"
	"github.com/ridge-llm/ridge/engine/sample"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/quant"
)

// fewWords is a model of so few tokens that the chance of every answer of three can be computed.
const fewWords = 6

const fewWordsConfig = `{"architectures": ["LlamaForCausalLM"], "hidden_size": 32, "intermediate_size": 32, "vocab_size": 6, "num_attention_heads": 2, "num_key_value_heads": 2,
	"head_dim": 16, "num_hidden_layers": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 1000.0, "hidden_act": "silu"}`

// randomFile is tensors of random numbers.
type randomFile map[string]quant.Tensor

func (f randomFile) Tensor(name string) (quant.Tensor, bool) { t, ok := f[name]; return t, ok }
func (randomFile) Release([]byte)                            {}

func (f randomFile) put(r *rand.Rand, name string, rows, cols int) {
	t := quant.Tensor{Format: quant.F32, Rows: rows, Cols: cols}
	for range rows * cols {
		x := r.NormFloat64() / math.Sqrt(float64(cols))
		if rows == 1 {
			x += 1
		}
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(float32(x)))
	}
	f[name+".weight"] = t
}

// putLayer adds a decoder layer of the sizes of fewWordsConfig, with a norm before its attention or without.
func (f randomFile) putLayer(r *rand.Rand, at string, norm bool) {
	for _, name := range []string{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"} {
		f.put(r, at+"."+name, 32, 32)
	}
	f.put(r, at+".post_attention_layernorm", 1, 32)
	if norm {
		f.put(r, at+".input_layernorm", 1, 32)
	}
}

// fewWordsModel is the model, and an EAGLE layer for it.
func fewWordsModel(t *testing.T) (files randomFile, m *model.Model, e *model.Eagle) {
	r := rand.New(rand.NewPCG(11, 12))
	files, own := randomFile{}, randomFile{}
	files.put(r, "model.embed_tokens", fewWords, 32)
	files.put(r, "lm_head", fewWords, 32)
	files.put(r, "model.norm", 1, 32)
	for i := range 2 {
		files.putLayer(r, fmt.Sprintf("model.layers.%d", i), true)
	}
	own.putLayer(r, "layers.0", false)
	own.put(r, "fc", 32, 64)
	m, err := model.FromHF("few words", []byte(fewWordsConfig), files)
	if err != nil {
		t.Fatal(err)
	}
	if e, err = model.OpenEagle("eagle", []byte(fewWordsConfig), own, m); err != nil {
		t.Fatal(err)
	}
	return files, m, e
}

// fewWordsGraph is the model's graph, which keeps its hidden states.
func fewWordsGraph(t *testing.T, m *model.Model) *graph.Graph {
	g, err := m.Graph(model.Options{Act: graph.F32, Cache: graph.F32})
	if err == nil {
		g, err = graph.KeepFinal(g)
	}
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func compiledOn(t *testing.T, dev backend.Device, g *graph.Graph, files compile.Tensors, lim backend.Limits) *compile.Program {
	t.Helper()
	p, err := compile.Compile(g, dev, files, lim)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// chances are those of every answer of three tokens to a prompt, [6*6*6], by the reference.
func chances(t *testing.T, m *model.Model, files randomFile, prompt []int32) (all []float64) {
	lim := backend.Limits{Tokens: 16, Seqs: 1, Logits: 1, PageSize: 16, SeqPages: 1, Pages: 1}
	lim.KeepAll(fewWordsGraph(t, m))
	prog := compiledOn(t, ref.New(), fewWordsGraph(t, m), files, lim)
	after := func(tokens ...int32) (p [fewWords]float64) {
		var b backend.Batch
		b.Reset(1, 1)
		b.AppendSeq(lim, 0, 0, append(append([]int32{}, prompt...), tokens...))
		b.LogitsIndices = append(b.LogitsIndices, int32(len(b.Tokens)-1))
		if err := prog.Run(&b); err != nil {
			t.Fatal(err)
		}
		logits, err := prog.Rows(make([]float32, fewWords), 1)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for i := range p {
			p[i] = math.Exp(float64(logits[i]))
			sum += p[i]
		}
		for i := range p {
			p[i] /= sum
		}
		return p
	}
	first := after()
	for a := range int32(fewWords) {
		second := after(a)
		for b := range int32(fewWords) {
			third := after(a, b)
			for c := range third {
				all = append(all, first[a]*second[b]*third[c])
			}
		}
	}
	return all
}

// TestModelDraftersKeepDistribution: the first three tokens of answers, of which all but the first are drafted by the model's first layer and by trees of an EAGLE layer, come as often as the reference
// says, by a χ² test of 8,000 answers per drafter (4,000 with -short; RIDGE_DRAWS: as many), in an engine that computes many at once.
func TestModelDraftersKeepDistribution(t *testing.T) {
	draws := 8000
	if testing.Short() {
		draws = 4000
	}
	if n, err := strconv.Atoi(os.Getenv("RIDGE_DRAWS")); err == nil {
		draws = n
	}
	prompt := []int32{2, 5, 0, 3, 3, 1}
	files, m, eagle := fewWordsModel(t)
	want := chances(t, m, files, prompt)
	lim := backend.Limits{Tokens: 2048, Seqs: 256, Logits: 256 * 6, PageSize: 16, SeqPages: 2, Pages: 3 * 256}
	g := fewWordsGraph(t, m)
	lim.KeepAll(g)
	for name, open := range map[string]func(backend.Device, *compile.Program) (draft.Drafter, error){
		"layerskip": func(_ backend.Device, prog *compile.Program) (draft.Drafter, error) {
			whole, err := m.Graph(model.Options{Act: graph.F32, Cache: graph.F32})
			if err != nil {
				return nil, err
			}
			first, err := graph.Segment(whole, 0, 1)
			if err != nil {
				return nil, err
			}
			part, err := prog.Part(first, files)
			if err != nil {
				return nil, err
			}
			return layerskip.New(part, func() error { return nil }), nil
		},
		"EAGLE trees": func(dev backend.Device, prog *compile.Program) (draft.Drafter, error) {
			layer, err := eagle.Graph(model.Options{Act: graph.F32, Cache: graph.F32})
			if err != nil {
				return nil, err
			}
			p, err := compile.Compile(layer, dev, eagleTensors{eagle}, hiddenmodel.Limits(lim, 3))
			if err != nil {
				return nil, err
			}
			return hiddenmodel.New(hiddenmodel.Model{
				Name: "eagle", Target: []compile.DeviceRows{prog.Kept(0)}, Layer: p, Branch: 3, Vocab: fewWords, Close: func() error { return nil },
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			dev, err := cpu.New(cpu.Options{Threads: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer dev.Close()
			prog, err := compile.Compile(g, dev, files, lim)
			if err != nil {
				t.Fatal(err)
			}
			d, err := open(dev, prog)
			if err != nil {
				t.Fatal(err)
			}
			e, err := New(prog, Options{Speculation: Speculation{Drafter: d, Tokens: 5, Always: true, Failed: func(err error) { t.Error(err) }}})
			if err != nil {
				t.Fatal(err)
			}
			count := answersOfThree(t, e, prompt, draws)
			s := e.Stats()
			e.Close()
			chi := 0.0
			for i, n := range count {
				x := want[i] * float64(draws)
				chi += (n - x) * (n - x) / x
			}
			t.Logf("%s: χ² %.1f of %d answers; %d of %d drafted tokens accepted", name, chi, draws, s.AcceptedTokens, s.DraftTokens)
			if chi > 285 { // 215 degrees of freedom: this has a chance of 0.001; the seeds are fixed, and so is the result but for rounding
				t.Errorf("%s: χ² is %.1f", name, chi)
			}
			if s.AcceptedTokens < int64(draws) || s.AcceptedTokens == s.DraftTokens {
				t.Errorf("%s: %d of %d drafted tokens were accepted: this shows little", name, s.AcceptedTokens, s.DraftTokens)
			}
		})
	}
}

// eagleTensors is files of which nothing is released.
type eagleTensors struct{ *model.Eagle }

func (eagleTensors) Release([]byte) {}

// answersOfThree counts the first three tokens of answers of six to a prompt, each with a seed of its own.
func answersOfThree(t *testing.T, e *Engine, prompt []int32, draws int) (count [fewWords * fewWords * fewWords]float64) {
	const together = 512
	answers, left := make([]int, together), make([]int, together)
	for from := 0; from < draws; from += together {
		n := min(together, draws-from)
		var all sync.WaitGroup
		e.Together(func() {
			for i := range n {
				p := sample.Default()
				p.Seed, p.Temperature = uint64(from+i), 1
				answers[i], left[i] = 0, 3
				all.Add(1)
				r := Request{Prompt: prompt, Params: p, MaxTokens: 6, Done: func(f Final) {
					if f.Err != nil || f.Output != 6 {
						t.Errorf("seed %d: %+v", from+i, f)
					}
					all.Done()
				}, Emit: func(c sample.Choice) bool {
					if left[i]--; left[i] >= 0 {
						answers[i] = fewWords*answers[i] + int(c.Token)
					}
					return false
				}}
				if err := e.Submit(context.Background(), r); err != nil {
					t.Error(err)
					all.Done()
				}
			}
		})
		all.Wait()
		for _, a := range answers[:n] {
			count[a]++
		}
	}
	return count
}
