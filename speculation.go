package ridge

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/engine/draft/hiddenmodel"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/weights"
)

// Speculation is speculative decoding: a drafter proposes the next tokens of an answer, and a step verifies several at once, which takes hardly
// longer than a step of one where reading the weights is what takes the time. Answers are those of decoding without, sampled ones too. The price of
// steps and what was accepted of late decide at each step how many tokens are worth it, none included.
type Speculation struct {
	// Method is where drafts come from; "" is off.
	//   - ngram: what followed the last occurrence of the latest tokens in prompt and answer (prompt lookup): for answers that repeat the prompt
	//   - suffix: what most often followed the latest tokens in prompt and answer and in those of earlier requests of the same tenant and salt
	//   - lookahead: n-grams that the model itself goes through where it guesses at several places at once (a Jacobi iteration); no second model
	//   - layerskip: what the model's own first layers, up to ExitLayer, and its head go on with, in the model's cache
	//   - draft_model: what a smaller model of the same vocabulary goes on with
	//   - mtp: what the layers of the model's own file that predict further tokens go on with (DeepSeek's, Qwen's, GLM's)
	//   - eagle, eagle3: what a layer trained for the model goes on with, from its hidden states or from those of three of its layers
	//   - medusa: trees of what Medusa heads make of the model's hidden states
	Method string
	Model  string // of draft_model, medusa, eagle and eagle3: a GGUF file or a Hugging Face directory, on the model's device
	Tokens int    // of a draft, at most (num_speculative_tokens); 0: 5

	LookupMin int // of ngram: tokens that must match at least (prompt_lookup_min); 0: 2
	LookupMax int // and at most (prompt_lookup_max); 0: 5

	// Of lookahead; 0: 4 each. The tokens of a draft are up to (LookaheadWindow + LookaheadPool) · (LookaheadNGram - 1), and Tokens is not set.
	LookaheadWindow int // places that are guessed at once (max_window_size)
	LookaheadNGram  int // tokens of an n-gram (max_ngram_size)
	LookaheadPool   int // n-grams that are verified in a step (max_verification_set_size)

	// ExitLayer is how many of the model's layers draft, of layerskip (exit_layer).
	ExitLayer int

	// Branch is how many tokens are considered after each, of mtp, eagle and eagle3 (eagle_topk): drafts are trees that grow where the layer is most confident, as
	// EAGLE-2's. 0 and 1: chains.
	Branch int

	// Beside is further drafters, each of another method, up to three. Of the drafts for a request those of the one are verified that bring most tokens a second, by what each takes and what
	// was accepted of it. ngram and suffix are asked for every request, others where they are expected to be worth it. Their Beside and Always are not set.
	Beside []Speculation

	// Always verifies as many tokens as are drafted, whatever they are worth.
	Always bool
}

const (
	defaultDraft = 5
	maxDraftRows = 256 // rows of logits of a step, more than two a sequence: their memory is a vocabulary each
)

// tokens is Tokens or what stands for 0.
func (s Speculation) tokens() int {
	if s.Method == string(draft.Lookahead) {
		return s.lookahead().Tokens()
	}
	return cmp.Or(s.Tokens, defaultDraft)
}

// most is tokens of the drafter of the longest drafts.
func (s Speculation) most() int {
	n := s.tokens()
	for _, b := range s.Beside {
		n = max(n, b.tokens())
	}
	return n
}

// lookahead is the settings of that method.
func (s Speculation) lookahead() draft.LookaheadOptions {
	return draft.LookaheadOptions{Window: s.LookaheadWindow, NGram: s.LookaheadNGram, Pool: s.LookaheadPool}
}

// check refuses settings that mean nothing.
func (s Speculation) check() error {
	if s.Method == "" {
		if !reflect.ValueOf(s).IsZero() {
			return fmt.Errorf("ridge: Speculation has settings and no Method; ngram, suffix, lookahead, layerskip, draft_model, medusa, mtp, eagle and eagle3 are possible")
		}
		return nil
	}
	if s.Tokens < 0 || s.Tokens > draft.MaxTokens {
		return fmt.Errorf("ridge: drafts of %d tokens (num_speculative_tokens); 1 to %d are possible", s.Tokens, draft.MaxTokens)
	}
	method, err := draft.ParseMethod(s.Method)
	if err != nil {
		return fmt.Errorf("ridge: %w", err)
	}
	if method.HasModel() != (s.Model != "") {
		return fmt.Errorf("ridge: the method of speculative decoding is %s and its model %q; draft_model, medusa, eagle and eagle3 need one, and no other method has one", method, s.Model)
	}
	if err := s.checkBeside(method); err != nil {
		return err
	}
	if method != draft.NGram && (s.LookupMin != 0 || s.LookupMax != 0) {
		return fmt.Errorf("ridge: prompt_lookup_min and prompt_lookup_max are settings of the method ngram; the method is %s", method)
	}
	if (method == draft.LayerSkip) != (s.ExitLayer != 0) || s.ExitLayer < 0 {
		return fmt.Errorf("ridge: the method of speculative decoding is %s and exit_layer %d; layerskip needs one of at least 1, and no other method has one", method, s.ExitLayer)
	}
	if s.Branch < 0 || s.Branch > hiddenmodel.MaxBranch || s.Branch > 0 && method != draft.MTP && method != draft.Eagle && method != draft.Eagle3 {
		return fmt.Errorf("ridge: the method of speculative decoding is %s and eagle_topk %d; with mtp, eagle and eagle3 1 to %d are possible, and no other method has it", method, s.Branch, hiddenmodel.MaxBranch)
	}
	if method == draft.Lookahead {
		if s.Tokens != 0 {
			return fmt.Errorf("ridge: num_speculative_tokens is set; with the method lookahead max_window_size, max_ngram_size and max_verification_set_size say how many there are")
		}
		_, err = draft.NewLookahead(s.lookahead())
	} else if s.lookahead() != (draft.LookaheadOptions{}) {
		err = fmt.Errorf("max_window_size, max_ngram_size and max_verification_set_size are settings of the method lookahead; the method is %s", method)
	}
	if err != nil {
		return fmt.Errorf("ridge: %w", err)
	}
	return nil
}

// checkBeside refuses drafters beside that mean nothing.
func (s Speculation) checkBeside(method draft.Method) error {
	if n := 1 + len(s.Beside); n > draft.MaxDrafters {
		return fmt.Errorf("ridge: beside the method %s %d others are asked; up to %d are possible", method, n-1, draft.MaxDrafters-1)
	}
	seen := []draft.Method{method}
	for _, b := range s.Beside {
		if err := b.check(); err != nil {
			return fmt.Errorf("%w (of the drafter beside %s)", err, method)
		}
		m, err := draft.ParseMethod(b.Method)
		if err != nil || slices.Contains(seen, m) {
			return fmt.Errorf("ridge: beside the method %s %q is asked; other methods are possible, each once", method, b.Method)
		}
		if len(b.Beside) > 0 || b.Always {
			return fmt.Errorf("ridge: beside the method %s %s has beside or always set; they are settings of the first drafter", method, m)
		}
		seen = append(seen, m)
	}
	return nil
}

// UnmarshalJSON reads vLLM's --speculative-config: {"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_max": 4}.
func (s *Speculation) UnmarshalJSON(text []byte) error {
	var c struct {
		Method    string   `json:"method"`
		Model     string   `json:"model"`
		Tokens    *int     `json:"num_speculative_tokens"`
		LookupMin int      `json:"prompt_lookup_min"`
		LookupMax int      `json:"prompt_lookup_max"`
		Window    int      `json:"max_window_size"`
		NGram     int      `json:"max_ngram_size"`
		Pool      int      `json:"max_verification_set_size"`
		Exit      int      `json:"exit_layer"`
		Beside    []beside `json:"beside"`
		Branch    int      `json:"eagle_topk"`
		Always    bool     `json:"always"`
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(&c)
	if kind := (*json.UnmarshalTypeError)(nil); errors.As(err, &kind) {
		return fmt.Errorf("ridge: the configuration of speculative decoding: %s is a JSON %s; docs/speculation.md says what it can be", cmp.Or(kind.Field, "it"), kind.Value)
	}
	if err != nil {
		return fmt.Errorf("ridge: the configuration of speculative decoding: %w", err)
	}
	*s = Speculation{Method: c.Method, Model: c.Model, LookupMin: c.LookupMin, LookupMax: c.LookupMax, LookaheadWindow: c.Window, LookaheadNGram: c.NGram, LookaheadPool: c.Pool, ExitLayer: c.Exit, Branch: c.Branch, Always: c.Always}
	if c.Tokens != nil {
		if s.Tokens = *c.Tokens; s.Tokens == 0 {
			return errors.New("ridge: num_speculative_tokens is 0; leave the configuration out to decode without drafts")
		}
	}
	switch {
	case s.Method != "":
	case s.Model == "ngram" || s.Model == "[ngram]": // as vLLM's older versions have it
		s.Method, s.Model = "ngram", ""
	case s.Model != "":
		s.Method = string(draft.DraftModel)
	default:
		return errors.New(`ridge: the configuration of speculative decoding names no method; "method": "ngram" is possible`)
	}
	for _, b := range c.Beside {
		if s.Beside = append(s.Beside, b.Speculation); b.short && b.Method == string(draft.NGram) {
			last := &s.Beside[len(s.Beside)-1]
			last.LookupMin, last.LookupMax, s.LookupMin, s.LookupMax = s.LookupMin, s.LookupMax, 0, 0
		}
	}
	return s.check()
}

// beside is a drafter beside another in a configuration: a method's name, for which prompt_lookup_min and prompt_lookup_max of the other are meant, or a configuration of its own.
type beside struct {
	Speculation
	short bool
}

// UnmarshalJSON implements json.Unmarshaler.
func (b *beside) UnmarshalJSON(text []byte) error {
	if err := json.Unmarshal(text, &b.Method); err != nil {
		return b.Speculation.UnmarshalJSON(text)
	}
	b.short = true
	return nil
}

// recognised is the settings with the methods that draft models' files are of, if they are an EAGLE layer.
func (s Speculation) recognised() Speculation {
	s.Beside = slices.Clone(s.Beside)
	for i, b := range s.Beside {
		s.Beside[i] = b.recognised()
	}
	if s.Method != string(draft.DraftModel) {
		return s
	}
	source, err := weights.Open(s.Model)
	if err != nil {
		return s // what opens it next says why not
	}
	defer source.Close()
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { _, ok := source.Info(n); return ok })
	}
	switch {
	case !has("fc.weight", "model.fc.weight"):
	case has("midlayer.hidden_norm.weight", "layers.0.hidden_norm.weight", "model.layers.0.hidden_norm.weight"):
		s.Method = string(draft.Eagle3)
	default:
		s.Method = string(draft.Eagle)
	}
	return s
}

// keep is the model's graph with the hidden states kept on the device that the methods go on from, each behind those of the one before.
func (s Speculation) keep(g *graph.Graph, target *modeldir.Dir) (_ *graph.Graph, err error) {
	switch method, _ := draft.ParseMethod(s.Method); method {
	case draft.Medusa:
		g, err = graph.KeepSelected(g)
	case draft.MTP, draft.Eagle:
		g, err = graph.KeepFinal(g)
	case draft.Eagle3:
		var e *eagleFiles
		if e, err = openEagle(s, target); err == nil {
			g, err = graph.KeepLayers(g, e.Layers...)
			err = errors.Join(err, e.source.Close())
		}
	}
	for _, b := range s.Beside {
		if err == nil {
			g, err = b.keep(g, target)
		}
	}
	return g, err
}

// speculation is the engine's settings, with drafters for a program.
func (m *Model) speculation(o Options, prog *loaded) (engine.Speculation, error) {
	s := o.Speculation
	if s.Method == "" {
		return engine.Speculation{}, nil
	}
	if prog.Encoder() {
		return engine.Speculation{}, errors.New("ridge: Speculation is set and the model is an encoder, which generates no text; leave it out")
	}
	settings := engine.Speculation{Tokens: s.tokens(), Always: s.Always}
	kept := 0
	for i, one := range append([]Speculation{s}, s.Beside...) {
		o.Speculation = one
		d, err := m.drafter(o, prog, &kept)
		if err != nil {
			return engine.Speculation{}, errors.Join(err, settings.Close())
		}
		if i == 0 {
			settings.Drafter = d
		} else {
			settings.Beside = append(settings.Beside, engine.Beside{Drafter: d, Tokens: one.tokens()})
		}
	}
	if o.Note != nil {
		settings.Failed = func(err error) { o.Note(err.Error()) }
	}
	return settings, nil
}

// drafter is the one that the options name, without those beside it. kept is how many of the hidden states that the program keeps are those of drafters before it.
func (m *Model) drafter(o Options, prog *loaded, kept *int) (draft.Drafter, error) {
	s := o.Speculation
	hidden := func(n int) (rows []compile.DeviceRows) {
		for range n {
			rows = append(rows, prog.one.Kept(*kept))
			*kept++
		}
		return rows
	}
	switch method, err := draft.ParseMethod(s.Method); method {
	case draft.NGram:
		return draft.NewNGram(draft.NGramOptions{Min: s.LookupMin, Max: s.LookupMax})
	case draft.Suffix:
		return draft.NewSuffix(), nil
	case draft.Lookahead:
		if slices.ContainsFunc(prog.whole.Caches, (*graph.Cache).Recurrent) {
			return nil, errors.New("ridge: lookahead needs token trees, and the model has recurrent layers, whose state goes on by a token at a time; choose another method")
		}
		return draft.NewLookahead(s.lookahead())
	case draft.DraftModel:
		return m.draftModel(o)
	case draft.LayerSkip:
		return m.layerSkip(o, prog.one)
	case draft.Medusa:
		return m.medusa(o, prog.one, hidden(1)[0])
	case draft.MTP:
		return m.mtp(o, hidden(1))
	case draft.Eagle, draft.Eagle3:
		return m.eagle(o, hidden)
	default:
		return nil, err
	}
}
