package evaluate

import (
	"fmt"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/compile/earlyexit"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
)

// Options says how a model is computed.
type Options struct {
	Context      int        // the longest window
	Cache        graph.Type // of keys and values
	Quantization string     // of weights on load, as pass.OnLoadFormat names it; "": as they are
	Exact        bool       // inputs of quantised matrices stay in floats
	Decode       bool       // tokens that are predicted are computed one at a time, as an answer's are
	// EarlyExit has them leave the model early; nil: none does.
	EarlyExit *earlyexit.Options
}

// stepTokens is how many tokens of a window are computed in one step, at most: their rows of logits are in memory together.
const stepTokens = 256

// Model is a model on a device, for one window at a time.
type Model struct {
	dir    *modeldir.Dir
	prog   compile.Runner
	exits  *earlyexit.Runner // it is prog; nil: no token leaves early
	decode bool
	took   time.Duration // computing tokens that are predicted
	scored int           // such tokens
	logits []float32
}

// Open compiles a model for a device, which the caller closes. It owns the directory from then on.
func Open(dir *modeldir.Dir, dev backend.Device, o Options) (*Model, error) {
	m := &Model{dir: dir, decode: o.Decode}
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
	if m.dir.Model.Config.Diffusion != nil {
		return fmt.Errorf("evaluate: %s fills masked tokens in (diffusion) and looks both ways: it predicts no token from those before it alone", m.dir.Name)
	}
	weights, err := pass.OnLoadFormat(o.Quantization, info.Act)
	if err != nil {
		return err
	}
	whole := g
	lim := backend.Limits{Seqs: 1, PageSize: graph.PageTokens(o.Cache), Tokens: min(stepTokens, o.Context), Logits: min(stepTokens, o.Context)}
	lim.SeqPages = o.Context/lim.PageSize + 1
	lim.Pages = lim.SeqPages
	if o.EarlyExit != nil {
		lim.Seqs = lim.Tokens // a row is a sequence by itself where others have left
	}
	lim.KeepAll(g)
	passes := pass.Options{Q8: info.Q8 && !o.Exact, BF16: info.BF16 && !o.Exact, Weights: weights, Inputs: pass.OnLoadInputs(o.Quantization), Kernels: compile.Kernels{Device: dev}}
	if g, err = pass.Run(g, pass.All, passes); err != nil {
		return err
	}
	prog, err := compile.Compile(g, dev, m.dir, lim)
	if err != nil {
		return err
	}
	if m.prog = prog; o.EarlyExit == nil {
		return nil
	}
	if m.exits, err = m.leaveEarly(prog, whole, passes, *o.EarlyExit); err != nil {
		prog.Close()
		return err
	}
	m.prog = m.exits
	return nil
}

// leaveEarly is the program with exits.
func (m *Model) leaveEarly(prog *compile.Program, whole *graph.Graph, passes pass.Options, o earlyexit.Options) (*earlyexit.Runner, error) {
	return earlyexit.Compile(prog, whole, m.dir, o, func(g *graph.Graph) (*graph.Graph, error) { return pass.Run(g, pass.All, passes) })
}

// Speed is how tokens that are predicted are computed.
type Speed struct {
	TokensPerSecond float64 `json:"tokens_per_second"`
	Layers          float64 `json:"layers_per_token"`
	ExitLayers      []int   `json:"exit_layers,omitempty"` // after which tokens leave, the last one included
	Exits           []int64 `json:"exits,omitempty"`       // tokens that left there
}

// Speed is how fast those so far were computed; layers are those of the model.
func (m *Model) Speed() Speed {
	s := Speed{Layers: float64(m.dir.Model.Config.Layers)}
	if m.took > 0 {
		s.TokensPerSecond = float64(m.scored) / m.took.Seconds()
	}
	if m.exits == nil {
		return s
	}
	s.ExitLayers, s.Exits = m.exits.Layers(), m.exits.Exits()
	tokens, layers := int64(0), int64(0)
	for i, n := range s.Exits {
		tokens, layers = tokens+n, layers+n*int64(s.ExitLayers[i])
	}
	if tokens > 0 {
		s.Layers = float64(layers) / float64(tokens)
	}
	return s
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
	return m.logitsFrom(0, w, each)
}

// reusable is how many of a window's first tokens need not be computed right after a window that begins alike: with recurrent layers none, since
// what is left of the one before is the state at its end.
func (m *Model) reusable(before, w Window) int {
	n := 0
	for n < min(len(before.Tokens), w.Score-1) && before.Tokens[n] == w.Tokens[n] {
		n++
	}
	if len(m.prog.Limits().Groups) > 0 {
		return 0
	}
	return n
}

// logitsFrom is Logits of a window whose first tokens, so many, the cache has.
func (m *Model) logitsFrom(from int, w Window, each func(token int32, logits []float32) error) error {
	vocab := m.prog.Vocab()
	for to := 0; from < len(w.Tokens); from = to {
		to = m.stepEnd(w, from)
		b := m.batch(w, from, to)
		began := time.Now()
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
		m.took, m.scored = m.took+time.Since(began), m.scored+n
		for i, at := range b.LogitsIndices {
			if err := each(w.Tokens[from+int(at)+1], m.logits[i*vocab:(i+1)*vocab]); err != nil {
				return err
			}
		}
	}
	return nil
}

// stepEnd is where a step ends that begins with token from. Tokens that are predicted are not in one with others where they are computed in another way.
func (m *Model) stepEnd(w Window, from int) int {
	to := min(from+stepTokens, len(w.Tokens))
	switch first := w.Score - 1; {
	case !m.decode && m.exits == nil:
	case from < first:
		to = min(to, first)
	case m.decode:
		to = from + 1
	case to == len(w.Tokens) && to-from > 1:
		to-- // the last token predicts none
	}
	return to
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
