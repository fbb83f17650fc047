package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ridge-llm/ridge/internal/convert"
	"github.com/ridge-llm/ridge/model"
)

func dummyCommand() *cobra.Command {
	var out, typeName string
	var list bool
	cmd := &cobra.Command{
		Use:   "dummy SHAPE -o FILE.gguf",
		Short: "Write a GGUF file of random weights in a real model's shape",
		Long: `Dummy writes a model that has the sizes of a well-known one and says nothing: for measuring speed and memory, here and in
other engines that read GGUF, without a download. The same shape and type always give the same file.

--type is as for ridge convert. Shapes are
  ` + strings.Join(model.Shapes(), ", ") + `.`,
		Example: `  ridge dummy --list
  ridge dummy llama-3.2-1b --type Q4_0 -o llama-1b.gguf
  ridge dummy qwen3-8b --type Q4_K_M -o qwen3-8b.gguf`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if list {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), strings.Join(model.Shapes(), "\n"))
				return err
			}
			t, err := convert.ParseType(typeName)
			switch {
			case err != nil:
				return err
			case len(args) == 0:
				return errors.New("dummy: which shape? ridge dummy --list names them")
			case out == "":
				return errors.New("dummy: say with -o which file to write")
			}
			p := newProgress(os.Stderr)
			r, err := convert.Dummy(cmd.Context(), args[0], out, convert.Options{Type: t, Progress: p.report})
			p.clear()
			return printResult(cmd, r, out, err)
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "file to write")
	cmd.Flags().StringVar(&typeName, "type", "BF16", "number format of matrices")
	cmd.Flags().BoolVar(&list, "list", false, "print the names of the shapes")
	return cmd
}
