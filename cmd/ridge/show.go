package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ridge-llm/ridge/internal/convert"
	"github.com/ridge-llm/ridge/internal/hub"
	"github.com/ridge-llm/ridge/internal/modeldir"
)

func showCommand() *cobra.Command {
	var tensors, metadata, asJSON bool
	cmd := &cobra.Command{
		Use:   "show [MODEL]",
		Short: "Show what is in a model file",
		Long: `Show says what a GGUF file or a Hugging Face directory holds: architecture, sizes, number formats, tokenizer, chat
template, and the KV cache size of a token. Of a file that Ridge does not run (a vocabulary alone, another architecture) it
shows what there is, and says why. Without MODEL it shows the built-in one.`,
		Example: `  ridge show model.gguf
  ridge show ./Qwen3-4B --tensors
  ridge show model.gguf --json --metadata`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := openNamed(args, modeldir.OpenAny)
			if err != nil {
				return err
			}
			defer b.Close()
			c, err := readContents(b, tensors, metadata)
			if err != nil {
				return err
			}
			if asJSON {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				return e.Encode(c)
			}
			return c.print(cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&tensors, "tensors", false, "list the tensors")
	cmd.Flags().BoolVar(&metadata, "metadata", false, "list a GGUF file's metadata")
	addJSON(cmd.Flags(), &asJSON)
	return cmd
}

// print prints the contents for people.
func (c *contents) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(what, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", what, fmt.Sprintf(format, args...)) }
	row("model", "%s (%s)", c.Name, c.Path)
	row("architecture", "%s, %s parameters", c.Architecture, convert.SizeLabel(c.Parameters))
	row("weights", "%s, %.2f bits each: %s", hub.Bytes(c.Bytes), c.BitsPerWeight, c.Formats)
	if c.Problem != "" {
		row("Ridge runs it", "no: %s", c.Problem)
	} else {
		c.printSizes(row)
	}
	if t := c.Tokenizer; t != nil {
		row("tokenizer", "%s, %d tokens, %d of them special", t.Kind, t.Vocabulary, t.Special)
		row("special tokens", "%s", t.special())
	} else {
		row("tokenizer", "none")
	}
	row("chat template", "%s", c.templateText())
	if c.Sampling != "" {
		row("recommended", "%s", c.Sampling)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return c.printLists(out)
}

// printSizes prints the rows of a model that Ridge runs.
func (c *contents) printSizes(row func(what, format string, args ...any)) {
	s := c.Sizes
	row("sizes", "%d layers, hidden size %d, feed-forward %d (%s)", s.Layers, s.Hidden, s.FFN, s.Activation)
	if s.MTPLayers > 0 {
		row("MTP layers", "%d, behind the others, for --speculative-config '{\"method\": \"mtp\"}'", s.MTPLayers)
	}
	row("attention", "%d heads of %d, %d key-value heads%s", s.Heads, s.HeadDim, s.KVHeads, c.windowText())
	if s.Mask != nil {
		row("diffusion", "looks both ways and fills in what is masked by token %d", *s.Mask)
	}
	row("positions", "%s", s.Positions)
	row("context", "%d tokens; KV cache in F16: %s per token, %s for the whole context", s.Context, hub.Bytes(c.CacheBytes), hub.Bytes(c.CacheContext))
	if c.StateBytes > 0 {
		row("state", "%s per sequence in F32, in recurrent layers", hub.Bytes(c.StateBytes))
	}
}

// printLists prints what --tensors and --metadata ask for.
func (c *contents) printLists(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for i, t := range c.Tensors {
		if i == 0 {
			fmt.Fprint(w, "\ntensor\tformat\tshape\n")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", t.Name, t.Format, strings.Trim(strings.ReplaceAll(fmt.Sprint(t.Shape), " ", " × "), "[]"))
	}
	for i, m := range c.Metadata {
		if i == 0 {
			fmt.Fprint(w, "\nmetadata\tvalue\n")
		}
		fmt.Fprintf(w, "%s\t%s\n", m.Key, m.short())
	}
	return w.Flush()
}
