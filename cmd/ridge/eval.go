package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/device"
	"github.com/ridge-llm/ridge/internal/evaluate"
	"github.com/ridge-llm/ridge/internal/modeldir"
)

// evalFlags are what ridge eval is asked for.
type evalFlags struct {
	device                   device.Options
	quantization, kvType     string
	text, against            string
	context, stride, windows int
	exact, decode, asJSON    bool
	exit                     ridge.EarlyExit
	resume, save             string
	task                     taskFlags
}

func evalCommand() *cobra.Command {
	var f evalFlags
	cmd := &cobra.Command{
		Use:   "eval [MODEL]",
		Short: "Measure a model's perplexity on a text, its score in a benchmark, and how far it is from another model",
		Long: `Eval computes the perplexity of a text (--text), as llama.cpp's llama-perplexity does: in parts of --context tokens, of whose second
halves every token is predicted. With --stride it is computed as transformers' documentation does: each part begins --stride tokens after the
last, and the tokens that are new in it are predicted. Of a file of documents (.jsonl: a JSON object with text or messages a line) each is a part by itself, as
the model's chat template renders it, up to --context tokens.

With --against it also computes the text with another model of the same vocabulary, such as the one that this was quantised from, and prints
the KL divergence of their predictions and how often their most likely tokens agree.

With --early-exit tokens that are sure enough leave the model before its last layer, and --decode computes predicted tokens one at a time, as an answer's
are, so that the tokens per second that are printed are those of decoding.

With --task it has the model answer the questions of a benchmark (--data), with prompts as lm-evaluation-harness writes them. Of hellaswag, arc and
mmlu the choice of the largest log-likelihood is the answer; the files are JSON lines as the hub has them, or AI2's of ARC, the authors' CSV of MMLU, and
llama-perplexity's text of HellaSwag. To gsm8k the model writes its answers, and a number in them is compared. Examples (--examples, --shots) go
before each question.

An evaluation with --resume goes on where an earlier one of the same settings was ended.`,
		Example: `  ridge eval --text wiki.test.raw model.gguf
  ridge eval --text wiki.test.raw --against model-f16.gguf model-q4_0.gguf
  ridge eval --text wiki.test.raw --early-exit layers=8,16,threshold=0.9 --decode --against model.gguf model.gguf
  ridge eval --text wiki.test.raw --context 1024 --stride 512 --exact hf-model
  ridge eval --task hellaswag --data hellaswag_val.jsonl --resume hs.log model.gguf
  ridge eval --task mmlu --data data/test --examples data/dev --shots 5 model.gguf
  ridge eval --task gsm8k --data test.jsonl --examples train.jsonl --shots 5 model.gguf`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := f.run(cmd.Context(), args, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if p, ok := r.(*evaluate.Result); ok && f.save != "" {
				beside := f.against
				if beside == "" {
					beside = args[0]
				}
				if err := saveEvaluation(beside, f.save, p); err != nil {
					return err
				}
			}
			if f.asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(r)
			}
			return printEval(cmd.OutOrStdout(), r)
		},
	}
	fl := cmd.Flags()
	addDevice(cmd, &f.device.Backend, &f.device.Threads, &f.device.Deterministic)
	addQuantization(fl, &f.quantization)
	addKVType(fl, &f.kvType)
	fl.StringVar(&f.text, "text", "", "the file with the text")
	fl.StringVar(&f.against, "against", "", "a model to compare with, of the same vocabulary, as its file has it, without --kv-type; that of the evaluated model shows what a type costs")
	fl.IntVar(&f.context, "context", 0, "tokens of a part of the text, or of a question at most, whose beginning is left out then; 0: 512, or what the longest question needs")
	fl.IntVar(&f.stride, "stride", 0, "tokens from one part to the next; 0: parts do not overlap, and their second halves count")
	fl.IntVar(&f.windows, "parts", 0, "compute only so many parts of the text; 0: all")
	fl.BoolVar(&f.exact, "exact", false, "leave the inputs of matrices in float32 on a CPU, instead of rounding them to what it multiplies fastest, and keys and values too")
	fl.BoolVar(&f.decode, "decode", false, "compute predicted tokens one at a time, as decoding does")
	addEarlyExit(fl, &f.exit)
	f.task.add(fl)
	fl.StringVar(&f.save, "save", "", "keep the perplexity under this name of a quantisation, such as gptq4, beside the model or, with --against, that one, where ridge plan --quant finds it")
	fl.StringVar(&f.resume, "resume", "", "file that keeps the results of parts or questions; one of an earlier run is gone on with")
	addJSON(fl, &f.asJSON)
	return cmd
}

// run evaluates the model, with progress on a terminal.
func (f *evalFlags) run(ctx context.Context, args []string, progress io.Writer) (any, error) {
	switch {
	case (f.text == "") == (f.task.name == ""):
		return nil, errors.New("eval: say with --text which text is to be predicted, or with --task and --data which benchmark is to be answered; one of both")
	case f.task.name != "" && (f.against != "" || f.stride != 0 || f.windows != 0 || f.decode || len(f.exit.Layers) > 0 || f.save != ""):
		return nil, errors.New("eval: --against, --stride, --parts, --decode, --early-exit and --save are of a --text; leave them out with --task")
	}
	if f.save != "" && f.against == "" && len(args) == 0 {
		return nil, errors.New("eval: --save keeps an evaluation beside a model's file or directory; name the model")
	}
	dir, err := openModel(args)
	if err != nil {
		return nil, err
	}
	defer func() { fmt.Fprintln(progress) }()
	switch {
	case f.text != "":
		return f.perplexity(dir, progress)
	case f.task.name == gsm8k:
		return f.answers(ctx, dir, args, progress)
	}
	return f.choices(dir, progress)
}

// settings are what must be the same for an evaluation to be gone on with. files are the data that it is of.
func (f *evalFlags) settings(dir *modeldir.Dir, files ...[]byte) (evaluate.Settings, error) {
	model, err := dir.Source.Fingerprint()
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	for _, data := range files {
		fmt.Fprintln(h, len(data))
		h.Write(data)
	}
	return evaluate.Settings{
		"model": dir.Source.Path, "weights": model, "data": hex.EncodeToString(h.Sum(nil)), "task": f.task.name, "backend": f.device.Backend, "quantization": f.quantization,
		"kv-type": f.kvType, "exact": strconv.FormatBool(f.exact), "context": strconv.Itoa(f.context), "stride": strconv.Itoa(f.stride),
		"decode": strconv.FormatBool(f.decode), "early-exit": (*earlyExitFlag)(&f.exit).String(),
	}, nil
}

// log opens the file of --resume; nil if there is none.
func (f *evalFlags) log(s evaluate.Settings) (*evaluate.Log, error) {
	if f.resume == "" {
		return nil, nil
	}
	return evaluate.OpenLog(f.resume, s)
}

// open puts a model on a device of its own: as the options say, and else as the flags do.
func (f *evalFlags) open(dir *modeldir.Dir, o evaluate.Options) (*evaluate.Model, func(), error) {
	dev, err := device.Open(f.device)
	if err != nil {
		dir.Close()
		return nil, nil, err
	}
	o.Context, o.Exact, o.Decode = f.context, f.exact, f.decode
	m, err := f.openOn(dir, o, dev)
	if err != nil {
		dev.Close()
		return nil, nil, err
	}
	return m, func() { m.Close(); dev.Close() }, nil
}

// printEval writes a result as text.
func printEval(w io.Writer, result any) (err error) {
	switch r := result.(type) {
	case *evaluate.Result:
		err = printPerplexity(w, r)
	case *evaluate.ChoiceResult:
		err = printChoices(w, r)
	case *evaluate.AnswerResult:
		_, err = fmt.Fprintf(w, "%-15s %.4f ± %.4f of %d problems\n%-15s %.4f ± %.4f\n", "strict match", r.Strict, r.StrictErr, r.Problems, "last number", r.Last, r.LastErr)
	}
	return err
}

// readFile reads a file of the evaluation.
func readFile(what, name string) ([]byte, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", what, err)
	}
	return data, nil
}

// cacheType is the element type of cached keys and values: what --kv-type says or, if it says nothing, F32 for an exact evaluation.
func (f *evalFlags) cacheType(act graph.Type) (graph.Type, error) {
	switch {
	case f.kvType != "":
		return device.CacheType(f.device.Backend, f.kvType)
	case act == graph.F32 && !f.exact:
		return graph.F16, nil
	}
	return act, nil
}
