package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/ridge-llm/ridge/internal/convert"
)

func mergeCommand() *cobra.Command {
	var out, typeName string
	var scales []float32
	cmd := &cobra.Command{
		Use:   "merge MODEL ADAPTER... -o OUT",
		Short: "Write a model with LoRA adapters merged into its matrices",
		Long: `Merge adds the products of LoRA adapters to the matrices that they change (DoRA, saved modules and trained tokens too) and writes the
model: a GGUF file, or a Hugging Face directory if OUT does not end with .gguf, which MODEL has to be too. Adapters are folders of PEFT or
GGUF files. Sums are made in 32-bit floats and rounded once, to the format of the file: that of the model or, with --type, another.`,
		Example: `  ridge merge ./Llama-3.2-1B-Instruct ./my-adapter -o merged.gguf --type Q8_0
  ridge merge ./Llama-3.2-1B-Instruct ./my-adapter -o ./merged
  ridge merge model.gguf a.gguf b.gguf --scale 1,0.5 -o merged.gguf`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := convert.ParseType(typeName)
			if err != nil {
				return err
			}
			if out == "" {
				return errors.New("merge: say with -o what to write")
			}
			var list []convert.Merged
			for i, path := range args[1:] {
				m := convert.Merged{Path: path, Scale: 1}
				if len(scales) > 0 {
					if len(scales) != len(args)-1 {
						return fmt.Errorf("merge: --scale has %d numbers for %d adapters; one for each is wanted", len(scales), len(args)-1)
					}
					m.Scale = scales[i]
				}
				list = append(list, m)
			}
			p := newProgress(os.Stderr)
			r, err := convert.Merge(cmd.Context(), args[0], list, out, convert.Options{Type: t, Progress: p.report})
			p.clear()
			return printResult(cmd, r, out, err)
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "file or directory to write")
	cmd.Flags().StringVar(&typeName, "type", "", "number format of a GGUF file's matrices; default: as they are")
	cmd.Flags().Float32SliceVar(&scales, "scale", nil, "what the adapters' changes are multiplied by, in order; default: 1")
	return cmd
}
