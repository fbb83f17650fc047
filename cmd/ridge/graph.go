package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
)

func graphCommand() *cobra.Command {
	var after string
	var cost bool
	var tokens, context, seqs int
	cmd := &cobra.Command{
		Use:   "graph [MODEL]",
		Short: "Print the operations of one step of a model, and what they cost",
		Long: `Graph prints the model as the list of operations that one step runs: what each makes, from what, with which weights.
With --cost it prints, for a step of the given size, each operation's arithmetic (FLOPs: a multiply-add is two) and the
bytes it must at least read and write.

--after says after which pass to look; the passes run in this order: ` + pass.Names() + `.`,
		Example: `  ridge graph model.gguf
  ridge graph model.gguf --after fuse
  ridge graph model.gguf --cost --tokens 1 --context 4096 --seqs 8`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if tokens < 1 || context < 0 || seqs < 1 {
				return fmt.Errorf("--tokens %d, --context %d, --seqs %d: a step has at least one token and one sequence", tokens, context, seqs)
			}
			b, err := openModel(args)
			if err != nil {
				return err
			}
			defer b.Close()
			g, err := b.Model.Graph(model.Options{Act: graph.F32, Cache: graph.F16})
			if err != nil {
				return err
			}
			if g, err = pass.Run(g, after, pass.Options{Q8: true}); err != nil {
				return err
			}
			if !cost {
				_, err = io.WriteString(cmd.OutOrStdout(), g.String())
				return err
			}
			step := &graph.Step{Logits: seqs}
			for range seqs {
				step.Seqs = append(step.Seqs, graph.Seq{New: tokens, Past: context})
			}
			return printCost(cmd.OutOrStdout(), g, step)
		},
	}
	cmd.Flags().StringVar(&after, "after", "", "show the graph after this pass, or after all; default: as the model builds it")
	cmd.Flags().BoolVar(&cost, "cost", false, "print FLOPs and bytes of each operation")
	cmd.Flags().IntVar(&tokens, "tokens", 1, "new tokens of each sequence in the step")
	cmd.Flags().IntVar(&context, "context", 0, "tokens of each sequence that are in the cache already")
	cmd.Flags().IntVar(&seqs, "seqs", 1, "sequences in the step")
	return cmd
}

// printCost prints a node a line with its work, and the sum.
func printCost(out io.Writer, g *graph.Graph, s *graph.Step) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "MFLOP\tweights KB\tcache KB\tvalues KB\tFLOP/byte\t  operation\n")
	row := func(work graph.Work, name string) {
		intensity := 0.0
		if b := work.Bytes(); b > 0 {
			intensity = float64(work.FLOPs) / float64(b)
		}
		fmt.Fprintf(w, "%.3f\t%.1f\t%.1f\t%.1f\t%.2f\t  %s\n", float64(work.FLOPs)/1e6, float64(work.WeightBytes)/1e3,
			float64(work.CacheRead+work.CacheWrite)/1e3, float64(work.ValueRead+work.ValueWrite)/1e3, intensity, name)
	}
	for _, n := range g.Nodes {
		row(n.Op.Work(n, s), n.Op.Name()+" "+n.Out[0].Name)
	}
	row(g.Work(s), "total")
	return w.Flush()
}
