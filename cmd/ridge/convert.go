package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/ridge-llm/ridge/internal/convert"
	"github.com/ridge-llm/ridge/weights/adapter"
)

func convertCommand() *cobra.Command {
	var out, typeName, sparse, base, embedding, output string
	cmd := &cobra.Command{
		Use:   "convert MODEL -o FILE.gguf",
		Short: "Write a model as GGUF in a number format of your choice, or a LoRA adapter in its other form",
		Long: `Convert writes a Hugging Face directory as a GGUF file that Ridge and llama.cpp load: weights, tokenizer, chat template
and settings. Given a GGUF file it writes the same model in another number format.

--type names the format of the matrices, or a mixture by the rules of llama-quantize, such as Q4_K_M; without it
they stay as they are. Vectors are F32. Where the rows of a matrix do not divide into the blocks of its format, it gets
one that fits, and a line on stderr says so. Possible are
  ` + strings.Join(convert.TypeNames(), ", ") + `.

--sparse 2:4 keeps, of each four numbers of a matrix inside the layers, the two of the largest magnitudes, in BF16 or in
F16 (--type): a matrix takes 56 % of its memory. Models that were not trained so lose much of their quality.

MODEL may be a LoRA adapter: a folder of PEFT becomes the GGUF file that llama.cpp reads, and such a file, or a GGUF adapter, a folder of
PEFT if the name after -o does not end with .gguf. --base is the model that it is for.`,
		Example: `  ridge convert ./Llama-3.2-1B-Instruct -o llama-1b.gguf --type Q8_0
  ridge convert ./Qwen3-4B -o qwen3-4b-q4.gguf --type Q4_K_M
  ridge convert model-bf16.gguf -o model-q4.gguf --type Q4_0
  ridge convert ./Sparse-Llama-3.1-8B-2of4 -o sparse.gguf --sparse 2:4
  ridge convert ./my-adapter --base ./Llama-3.2-1B-Instruct -o my-adapter.gguf
  ridge convert my-adapter.gguf --base ./Llama-3.2-1B-Instruct -o ./my-adapter`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := convert.ParseType(typeName)
			if err != nil {
				return err
			}
			ends, err := convert.ParseEnds(embedding, output)
			if err != nil {
				return err
			}
			if sparse != "" {
				if t, err = t.Sparse(sparse); err != nil {
					return err
				}
			}
			if out == "" {
				return errors.New("convert: say with -o which file to write")
			}
			if adapter.Is(args[0]) {
				if typeName != "" || ends != (convert.Ends{}) || base == "" {
					return fmt.Errorf("convert: %s is a LoRA adapter; say with --base which model it is for, and leave types out: it keeps its numbers", args[0])
				}
				r, err := convert.Adapter(args[0], base, out)
				return printResult(cmd, r, out, err)
			}
			if base != "" {
				return fmt.Errorf("convert: --base is the model of a LoRA adapter, and %s is none", args[0])
			}
			p := newProgress(os.Stderr)
			r, err := convert.Convert(cmd.Context(), args[0], out, convert.Options{Type: t, Ends: ends, Progress: p.report})
			p.clear()
			return printResult(cmd, r, out, err)
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "file to write")
	cmd.Flags().StringVar(&base, "base", "", "model that an adapter is for: a Hugging Face directory or a GGUF file")
	cmd.Flags().StringVar(&typeName, "type", "", "number format of matrices; default: as they are")
	addEnds(cmd.Flags(), &embedding, &output)
	cmd.Flags().StringVar(&sparse, "sparse", "", "structured sparsity: 2:4 keeps the two largest of each four numbers")
	return cmd
}

// addEnds adds the flags of the formats of embeddings and of the matrix that makes the logits.
func addEnds(fl *pflag.FlagSet, embedding, output *string) {
	fl.StringVar(embedding, "token-embedding-type", "", "of a GGUF file: number format of the table of embeddings, such as Q8_0; default: by --type, or as it is")
	fl.StringVar(output, "output-tensor-type", "", "of a GGUF file: number format of the matrix that makes the logits, such as Q6_K; default: by --type, or as it is")
}

// printResult says what was written, and on stderr what is worth knowing about it.
func printResult(cmd *cobra.Command, r *convert.Result, out string, err error) error {
	if err != nil {
		return err
	}
	for _, note := range r.Notes {
		fmt.Fprintln(cmd.ErrOrStderr(), "ridge: note:", note)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s  %d tensors, %.1f MB\n", out, r.Tensors, float64(r.Bytes)/1e6)
	return err
}

// progress is a line on a terminal that says how far a file is; elsewhere it is silent.
type progress struct {
	out   io.Writer // nil: no terminal
	start time.Time
	next  time.Time // not before then again
}

func newProgress(f *os.File) *progress {
	p := &progress{start: time.Now()}
	if term.IsTerminal(int(f.Fd())) {
		p.out = f
	}
	return p
}

func (p *progress) report(done, all int64) {
	now := time.Now()
	if p.out == nil || now.Before(p.next) {
		return
	}
	p.next = now.Add(100 * time.Millisecond)
	rate := float64(done) / 1e6 / max(now.Sub(p.start).Seconds(), 0.001)
	fmt.Fprintf(p.out, "\r%3d%%  %.0f of %.0f MB, %.0f MB/s \x1b[K", 100*done/max(all, 1), float64(done)/1e6, float64(all)/1e6, rate)
}

// clear takes the line away.
func (p *progress) clear() {
	if p.out != nil {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
