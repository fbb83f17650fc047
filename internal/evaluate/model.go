package evaluate

import (
	"fmt"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
)

// Options says how a model is computed.
type Options struct {
	Context int        // the longest window
	Cache   graph.Type // of keys and values
	Exact   bool       // inputs of quantised matrices stay in floats
}

// stepTokens is how many tokens of a window are computed in one step, at most: their rows of logits are in memory together.
const stepTokens = 256

// Model is a model on a device, for one window at a time.
type Model struct {
	dir    *modeldir.Dir
	prog   *compile.Program
	logits []float32
}

// Open compiles a model for a device, which the caller closes. It owns the directory from then on.
func Open(dir *modeldir.Dir, dev backend.Device, o Options) (*Model, error) {
	m := &Model{dir: dir}
	if err := m.compile(dev, o); err != nil {
		dir.Close()
		return nil, err
	}
	return m, nil
}

func (m *Model) compile(dev backend.Device, o Options) error {
	info := dev.Info()
	g, err := m.dir.Model.Graph(model.Options{Act: info.Act, Cache: o.Cache})
	if err != nil {
		return err
	}
	if m.dir.Model.Config.Encoder {
		return fmt.Errorf("evaluate: %s is an encoder, which predicts no tokens", m.dir.Name)
	}
	lim := backend.Limits{Seqs: 1, PageSize: 16, Tokens: min(stepTokens, o.Context), Logits: min(stepTokens, o.Context)}
	lim.SeqPages = o.Context/lim.PageSize + 1
	lim.Pages = lim.SeqPages
	lim.KeepAll(g)
	g, err = pass.Run(g, pass.All, pass.Options{Q8: info.Q8 && !o.Exact, BF16: info.BF16 && !o.Exact, Kernels: compile.Kernels{Device: dev}})
	if err != nil {
		return err
	}
	m.prog, err = compile.Compile(g, dev, m.dir, lim)
	return err
}

// Vocab is the width of a row of logits.
func (m *Model) Vocab() int { return m.prog.Vocab() }

// Close frees the model's memory.
func (m *Model) Close() error {
	m.prog.Close()
	return m.dir.Close()
}

// Logits computes a window and calls each with the logits that predict its tokens from Score on, one after the other. They are valid during the
// call.
func (m *Model) Logits(w Window, each func(token int32, logits []float32) error) error {
	vocab := m.prog.Vocab()
	for from := 0; from < len(w.Tokens); from += stepTokens {
		to := min(from+stepTokens, len(w.Tokens))
		b := m.batch(w, from, to)
		if err := b.Check(m.prog.Limits(), m.prog.Ids()); err != nil {
			return fmt.Errorf("evaluate: %w", err)
		}
		if err := m.prog.Run(b); err != nil {
			return err
		}
		n := len(b.LogitsIndices)
		if n == 0 {
			continue
		}
		if len(m.logits) < n*vocab {
			m.logits = make([]float32, n*vocab)
		}
		if err := m.prog.Logits(m.logits[:n*vocab], 0, n); err != nil {
			return err
		}
		for i, at := range b.LogitsIndices {
			if err := each(w.Tokens[from+int(at)+1], m.logits[i*vocab:(i+1)*vocab]); err != nil {
				return err
			}
		}
	}
	return nil
}

// batch is a step of tokens [from, to) of a window.
func (m *Model) batch(w Window, from, to int) *backend.Batch {
	lim := m.prog.Limits()
	b := &backend.Batch{}
	b.Reset(max(1, len(lim.Groups)), lim.SeqPages)
	b.AppendSeq(lim, 0, from, w.Tokens[from:to])
	for p := max(from, w.Score-1); p < min(to, len(w.Tokens)-1); p++ {
		b.LogitsIndices = append(b.LogitsIndices, int32(p-from))
	}
	return b
}
