package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/ridge-llm/ridge/internal/convert"
	"github.com/ridge-llm/ridge/internal/quantize"
)

// quantizeFlags are what ridge quantize is asked for.
type quantizeFlags struct {
	o                  quantize.Options
	method, order      string
	layout, calib      string
	out                string
	samples, length    int
	typeName           string
	imatrix            string
	imatrixOut         string
	embedding          string
	outputType         string
	sparsity           string
	asymmetric, asJSON bool
}

func quantizeCommand() *cobra.Command {
	var f quantizeFlags
	cmd := &cobra.Command{
		Use:   "quantize MODEL --method METHOD -o OUT",
		Short: "Round a model's matrices to few bits, by what a text makes of its layers",
		Long: `Quantize runs a calibration text through a model, layer by layer, and rounds the matrices of its linear layers so that the layers' results
change least. It writes a GGUF file if the name of OUT ends in .gguf, or else a Hugging Face directory in a layout that transformers and vLLM load.

Methods are ` + strings.Join(quantizeMethods(), ", ") + `:
  rtn          to nearest; no text is needed for it, but what it costs is measured on one
  gptq         column by column, spreading errors over the columns that are left
  awq          columns of large inputs are scaled up before rounding, and their inputs down
  smoothquant  8 bits, inputs too: scales move outliers of inputs into the matrices
  autoround    rounding offsets by sign gradients
  magnitude, wanda, sparsegpt
               half of the numbers become zero (--sparsity 2:4: two of every four); the others stay as they are, or, of sparsegpt, make up for it; with
               --bits they are rounded besides
  imatrix      a type of GGUF (--type, as of ridge convert), with errors counted by the inputs of each column: an importance matrix, which can be
               read from a file of llama.cpp's (--imatrix) and written to one (--imatrix-out, as GGUF or .dat)

For each tensor but imatrix's a line says what error its results have over the text when it is rounded to nearest (or halved by magnitude) and by the
method. A run of these methods that was ended goes on where it was when the same command is given again.`,
		Example: `  ridge quantize Qwen3-4B --method gptq --bits 4 --group 128 -o Qwen3-4B-gptq
  ridge quantize Qwen3-4B --method awq --calib text.txt -o Qwen3-4B-awq
  ridge quantize model.gguf --method gptq --group 32 -o model-q4_0.gguf`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, args[0])
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.method, "method", "gptq", "how matrices are rounded")
	flags.IntVar(&f.o.Grid.Bits, "bits", 4, "bits of a number, 2 to 8; magnitude, wanda and sparsegpt round only if it is given")
	flags.IntVar(&f.o.Grid.Group, "group", 128, "numbers that share a scale; 0: those of a row")
	flags.BoolVar(&f.asymmetric, "asymmetric", false, "groups have a zero point of their own; awq's always do")
	flags.StringVar(&f.order, "act-order", "static", "order of columns in gptq: off, static (by magnitude of their inputs) or full (likewise, groups too: desc_act)")
	flags.Float64Var(&f.o.GPTQ.Damping, "damping", 0.01, "of gptq's Hessian: a part of its mean that is added to the diagonal")
	flags.BoolVar(&f.o.GPTQ.Clip, "clip", true, "gptq searches scales for the least error, instead of spanning all numbers of a group")
	flags.Float64Var(&f.o.Alpha, "alpha", 0, "of smoothquant: how much of outliers goes into the matrices; 0: searched for each layer")
	flags.BoolVar(&f.o.Rotate, "rotate", false, "turn the residual stream and values by Hadamard matrices first, folded into the weights (QuaRot), so that no number is much larger than others")
	flags.BoolVar(&f.o.Head, "lm-head", false, "of a directory: round the matrix that makes the logits too; embeddings that it is tied to stay as they are")
	flags.StringVar(&f.layout, "layout", "", "of a directory: gptq, awq or compressed-tensors; default: by the method")
	flags.StringVar(&f.sparsity, "sparsity", "50%", "of magnitude, wanda and sparsegpt: 50% or 2:4")
	flags.StringVar(&f.typeName, "type", "", "of imatrix: number format of matrices in the GGUF file; default: by --bits")
	addEnds(flags, &f.embedding, &f.outputType)
	flags.StringVar(&f.imatrix, "imatrix", "", "of imatrix: a file with the importances, in place of a calibration text")
	flags.StringVar(&f.imatrixOut, "imatrix-out", "", "of imatrix: where to write the importances")
	flags.StringVar(&f.calib, "calib", quantize.Builtin, "calibration text: a file, plain or a JSON object with text or messages a line (.jsonl), or builtin")
	flags.IntVar(&f.samples, "samples", 128, "sequences of the calibration text")
	flags.IntVar(&f.length, "length", 0, "tokens of a sequence; 0: 2048, or the model's context if it is shorter")
	flags.StringVarP(&f.out, "output", "o", "", "file (.gguf) or directory to write")
	flags.StringVar(&f.o.Backend, "backend", "cpu", "what runs the model over the text: cpu or ref")
	flags.IntVar(&f.o.Threads, "threads", 0, "threads that run the model over the text; 0: as many as the process may use")
	addJSON(flags, &f.asJSON)
	return cmd
}

// run quantises the model.
func (f *quantizeFlags) run(cmd *cobra.Command, name string) error {
	if err := checkMethodFlags(cmd.Flags(), f.method); err != nil {
		return err
	}
	if f.out == "" {
		return errors.New("quantize: say with -o where to write: a name that ends in .gguf, or a directory")
	}
	var err error
	if f.o.Ends, err = convert.ParseEnds(f.embedding, f.outputType); err != nil {
		return err
	}
	f.o.Method, f.o.Layout, f.o.GPTQ.Order = quantize.Method(f.method), quantize.Layout(f.layout), quantize.Order(f.order)
	f.o.Grid.Symmetric = !f.asymmetric
	if f.o.Prunes() && !cmd.Flags().Changed("bits") {
		f.o.Grid.Bits = 0
	}
	switch f.sparsity {
	case "50%":
	case "2:4":
		f.o.Of4 = 2
	default:
		return fmt.Errorf("quantize: --sparsity is %q; 50%% and 2:4 are possible", f.sparsity)
	}
	dir, err := openModel([]string{name})
	if err != nil {
		return err
	}
	defer dir.Close()
	length := f.length
	if length == 0 {
		length = min(2048, dir.Model.Config.Context)
	}
	if f.method == imatrixMethod {
		return f.runImatrix(cmd, dir, length)
	}
	seqs, err := quantize.Sequences(dir, f.calib, f.samples, length)
	if err != nil {
		return err
	}
	show := newQuantizeProgress(os.Stderr, cmd.ErrOrStderr())
	f.o.Progress = show.report
	r, err := quantize.Run(cmd.Context(), dir, seqs, f.out, f.o)
	show.clear()
	if err != nil {
		return err
	}
	if f.asJSON {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(r)
	}
	for _, note := range r.Notes {
		fmt.Fprintln(cmd.ErrOrStderr(), "ridge: note:", note)
	}
	plain := "to nearest"
	if f.o.Prunes() {
		plain = "by magnitude"
	}
	return printQuantized(cmd.OutOrStdout(), r, plain, f.out)
}

// printQuantized writes the errors of all tensors, beside those of the plain method, and what was written.
func printQuantized(w io.Writer, r *quantize.Result, plain, out string) error {
	if _, err := fmt.Fprintf(w, "%-48s %12s %12s\n", "squared error of results, of their square", plain, "method"); err != nil {
		return err
	}
	var before, after float64
	for _, l := range r.Layers {
		if _, err := fmt.Fprintf(w, "%-48s %12.6f %12.6f\n", l.Tensor, l.Before, l.After); err != nil {
			return err
		}
		before, after = before+l.Before/float64(len(r.Layers)), after+l.After/float64(len(r.Layers))
	}
	_, err := fmt.Fprintf(w, "%-48s %12.6f %12.6f\n%s  %d tensors quantised\n", "mean", before, after, out, len(r.Layers))
	return err
}

// quantizeProgress is a line on a terminal that says how far a run is; elsewhere it is silent.
type quantizeProgress struct {
	w io.Writer // nil: no terminal
}

func newQuantizeProgress(f *os.File, w io.Writer) *quantizeProgress {
	if !term.IsTerminal(int(f.Fd())) {
		return &quantizeProgress{}
	}
	return &quantizeProgress{w}
}

// progressWidth is the characters of a progress bar.
const progressWidth = 24

func (p *quantizeProgress) report(at quantize.Progress) {
	if p.w == nil {
		return
	}
	full := progressWidth * (at.Layer + 1) / max(at.Layers, 1)
	bar := strings.Repeat("#", min(full, progressWidth)) + strings.Repeat(".", progressWidth-min(full, progressWidth))
	fmt.Fprintf(p.w, "\r[%s] layer %d of %d  %s  %.5f -> %.5f\x1b[K", bar, at.Layer+1, at.Layers, at.What, at.Before, at.After)
}

// clear takes the line away.
func (p *quantizeProgress) clear() {
	if p.w != nil {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
