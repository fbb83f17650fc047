package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/compile/earlyexit"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/device"
	"github.com/ridge-llm/ridge/internal/documents"
	"github.com/ridge-llm/ridge/internal/evaluate"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/tokenizer"
)

// evalFlags are what ridge eval is asked for.
type evalFlags struct {
	device                   device.Options
	text, against            string
	context, stride, windows int
	exact, decode, asJSON    bool
	exit                     ridge.EarlyExit
}

func evalCommand() *cobra.Command {
	var f evalFlags
	cmd := &cobra.Command{
		Use:   "eval [MODEL]",
		Short: "Measure a model's perplexity on a text, and how far it is from another model",
		Long: `Eval computes the perplexity of a text, as llama.cpp's llama-perplexity does: in parts of --context tokens, of whose second
halves every token is predicted. With --stride it is computed as transformers' documentation does: each part begins --stride tokens after the
last, and the tokens that are new in it are predicted. Of a file of documents (.jsonl: a JSON object with text or messages a line) each is a part by itself, as
the model's chat template renders it, up to --context tokens.

With --against it also computes the text with another model of the same vocabulary, such as the one that this was quantised from, and prints
the KL divergence of their predictions and how often their most likely tokens agree.

With --early-exit tokens that are sure enough leave the model before its last layer, and --decode computes predicted tokens one at a time, as an answer's
are, so that the tokens per second that are printed are those of decoding.`,
		Example: `  ridge eval --text wiki.test.raw model.gguf
  ridge eval --text wiki.test.raw --against model-f16.gguf model-q4_0.gguf
  ridge eval --text wiki.test.raw --early-exit layers=8,16,threshold=0.9 --decode --against model.gguf model.gguf
  ridge eval --text wiki.test.raw --context 1024 --stride 512 --exact hf-model`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := f.run(args, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if f.asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(r)
			}
			return printEval(cmd.OutOrStdout(), r)
		},
	}
	addDevice(cmd, &f.device.Backend, &f.device.Threads, &f.device.Deterministic)
	cmd.Flags().StringVar(&f.text, "text", "", "the file with the text")
	cmd.Flags().StringVar(&f.against, "against", "", "a model to compare with, of the same vocabulary")
	cmd.Flags().IntVar(&f.context, "context", 512, "tokens of a part of the text")
	cmd.Flags().IntVar(&f.stride, "stride", 0, "tokens from one part to the next; 0: parts do not overlap, and their second halves count")
	cmd.Flags().IntVar(&f.windows, "parts", 0, "compute only so many parts; 0: all")
	cmd.Flags().BoolVar(&f.exact, "exact", false, "leave the inputs of matrices in float32 on a CPU, instead of rounding them to what it multiplies fastest")
	cmd.Flags().BoolVar(&f.decode, "decode", false, "compute predicted tokens one at a time, as decoding does")
	addEarlyExit(cmd.Flags(), &f.exit)
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print the result as JSON")
	if err := cmd.MarkFlagRequired("text"); err != nil {
		panic(err) // there is no such flag: a mistake here
	}
	return cmd
}

// run evaluates the model, with progress on a terminal.
func (f *evalFlags) run(args []string, progress io.Writer) (*evaluate.Result, error) {
	text, err := os.ReadFile(f.text)
	if err != nil {
		return nil, fmt.Errorf("reading the text: %w", err)
	}
	dir, err := openModel(args)
	if err != nil {
		return nil, err
	}
	windows, err := f.cut(dir, string(text))
	if err != nil {
		dir.Close()
		return nil, err
	}
	m, closeModel, err := f.open(dir, f.exit)
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
		var closeOther func()
		if reference, closeOther, err = f.open(other, ridge.EarlyExit{}); err != nil {
			return nil, err
		}
		defer closeOther()
	}
	r, err := evaluate.Perplexity(m, reference, windows, func(done int, perplexity float64) {
		fmt.Fprintf(progress, "\r%d of %d parts, perplexity %.4f ", done, len(windows), perplexity)
	})
	fmt.Fprintln(progress)
	return r, err
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

// open puts a model on a device of its own.
func (f *evalFlags) open(dir *modeldir.Dir, exit ridge.EarlyExit) (*evaluate.Model, func(), error) {
	dev, err := device.Open(f.device)
	if err != nil {
		dir.Close()
		return nil, nil, err
	}
	cache := dev.Info().Act
	if cache == graph.F32 && !f.exact {
		cache = graph.F16
	}
	o := evaluate.Options{Context: f.context, Cache: cache, Exact: f.exact, Decode: f.decode}
	if len(exit.Layers) > 0 {
		o.EarlyExit = (*earlyexit.Options)(&exit)
	}
	m, err := evaluate.Open(dir, dev, o)
	if err != nil {
		dev.Close()
		return nil, nil, err
	}
	return m, func() { m.Close(); dev.Close() }, nil
}

// printEval writes a result as text.
func printEval(w io.Writer, r *evaluate.Result) error {
	_, err := fmt.Fprintf(w, "perplexity      %.4f ± %.4f over %d tokens in %d parts\n", r.Perplexity, r.StdErr, r.Tokens, r.Windows)
	if len(r.Speed.Exits) > 0 && err == nil {
		_, err = fmt.Fprintf(w, "layers a token  %.2f; tokens left after layers %v: %v\n", r.Speed.Layers, r.Speed.ExitLayers, r.Speed.Exits)
	}
	if err == nil {
		_, err = fmt.Fprintf(w, "tokens/s        %.1f, of predicted ones\n", r.Speed.TokensPerSecond)
	}
	if a := r.Against; a != nil && err == nil {
		_, err = fmt.Fprintf(w, "reference       %.4f; the logarithm rises by %.5f\nKL divergence   %.6f nats a token, at most %.4f\nsame top token  %.2f %%\n",
			a.Perplexity, r.NLL-math.Log(a.Perplexity), a.KL, a.KLMax, 100*a.Top1)
	}
	return err
}
