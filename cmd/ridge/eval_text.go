package main

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile/earlyexit"
	"github.com/ridge-llm/ridge/internal/documents"
	"github.com/ridge-llm/ridge/internal/evaluate"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/tokenizer"
)

// perplexity evaluates the model on a text.
func (f *evalFlags) perplexity(dir *modeldir.Dir, progress io.Writer) (*evaluate.Result, error) {
	text, settings, err := f.readText(dir)
	if err != nil {
		dir.Close()
		return nil, err
	}
	windows, err := f.cut(dir, string(text))
	if err != nil {
		dir.Close()
		return nil, err
	}
	o := evaluate.Options{Quantization: f.quantization}
	if len(f.exit.Layers) > 0 {
		o.EarlyExit = (*earlyexit.Options)(&f.exit)
	}
	m, closeModel, err := f.open(dir, o)
	if err != nil {
		return nil, err
	}
	defer closeModel()
	var reference *evaluate.Model
	if f.against != "" {
		other, err := openModel([]string{f.against})
		if err != nil {
			return nil, err
		}
		if settings["against"], err = other.Source.Fingerprint(); err != nil {
			other.Close()
			return nil, err
		}
		var closeOther func()
		plain := *f
		plain.kvType = "" // as its quantisation and exits it is of the model that is evaluated
		if reference, closeOther, err = plain.open(other, evaluate.Options{}); err != nil {
			return nil, err
		}
		defer closeOther()
	}
	log, err := f.log(settings)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	return evaluate.Perplexity(m, reference, windows, log, func(done int, perplexity float64) {
		fmt.Fprintf(progress, "\r%d of %d parts, perplexity %.4f ", done, len(windows), perplexity)
	})
}

// readText reads the text, and says what the evaluation depends on.
func (f *evalFlags) readText(dir *modeldir.Dir) ([]byte, evaluate.Settings, error) {
	if f.context == 0 {
		f.context = 512
	}
	text, err := readFile("the text", f.text)
	if err != nil {
		return nil, nil, err
	}
	s, err := f.settings(dir, text)
	return text, s, err
}

// openOn is evaluate.Open on a device.
func (f *evalFlags) openOn(dir *modeldir.Dir, o evaluate.Options, dev backend.Device) (m *evaluate.Model, err error) {
	if o.Cache, err = f.cacheType(dev.Info().Act); err != nil {
		dir.Close()
		return nil, err
	}
	return evaluate.Open(dir, dev, o)
}

// cut tokenizes the text and cuts the tokens into windows.
func (f *evalFlags) cut(dir *modeldir.Dir, text string) ([]evaluate.Window, error) {
	if n := dir.Model.Config.Context; f.context > n {
		return nil, fmt.Errorf("--context %d is more than the %d tokens that the model was made for", f.context, n)
	}
	if strings.HasSuffix(f.text, ".jsonl") {
		return f.documents(dir, text)
	}
	t, err := dir.Tokenizer()
	if err != nil {
		return nil, err
	}
	tokens, err := t.Encode(text, tokenizer.Options{Special: true})
	if err != nil {
		return nil, err
	}
	var windows []evaluate.Window
	if f.stride > 0 {
		windows, err = evaluate.Strided(tokens, f.context, f.stride)
	} else {
		bos, ok := t.BOS()
		if !ok || len(tokens) == 0 || tokens[0] != bos { // texts of this model do not begin with it
			bos = -1
		}
		windows, err = evaluate.Chunks(tokens, f.context, bos)
	}
	if f.windows > 0 && len(windows) > f.windows {
		windows = windows[:f.windows]
	}
	return windows, err
}

// documents is a window for each document of a text.
func (f *evalFlags) documents(dir *modeldir.Dir, text string) ([]evaluate.Window, error) {
	all, err := documents.Read(dir, f.text, []byte(text), f.context)
	if err != nil {
		return nil, err
	}
	var windows []evaluate.Window
	for _, d := range all {
		windows = append(windows, evaluate.Window{Tokens: d, Score: 1})
	}
	if f.windows > 0 && len(windows) > f.windows {
		windows = windows[:f.windows]
	}
	if len(windows) == 0 {
		return nil, fmt.Errorf("%s has no document of two tokens or more", f.text)
	}
	return windows, nil
}

func printPerplexity(w io.Writer, r *evaluate.Result) error {
	_, err := fmt.Fprintf(w, "perplexity      %.4f ± %.4f over %d tokens in %d parts\n", r.Perplexity, r.StdErr, r.Tokens, r.Windows)
	if len(r.Speed.Exits) > 0 && err == nil {
		_, err = fmt.Fprintf(w, "layers a token  %.2f; tokens left after layers %v: %v\n", r.Speed.Layers, r.Speed.ExitLayers, r.Speed.Exits)
	}
	if r.Speed.TokensPerSecond > 0 && err == nil { // else an earlier run has computed all
		_, err = fmt.Fprintf(w, "tokens/s        %.1f, of predicted ones\n", r.Speed.TokensPerSecond)
	}
	if a := r.Against; a != nil && err == nil {
		_, err = fmt.Fprintf(w, "reference       %.4f; the logarithm rises by %.5f\nKL divergence   %.6f nats a token, at most %.4f\nsame top token  %.2f %%\n",
			a.Perplexity, r.NLL-math.Log(a.Perplexity), a.KL, a.KLMax, 100*a.Top1)
	}
	return err
}
