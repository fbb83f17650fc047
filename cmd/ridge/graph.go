package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/price"
)

// graphFlags say which graph to print, and for which step its cost.
type graphFlags struct {
	shape                 modelShapeFlags
	pass, device          string
	layout                pass.Layout
	rank                  pass.Rank
	adapters              pass.Adapters
	cost                  bool
	tokens, context, seqs int
}

func graphCommand() *cobra.Command {
	var f graphFlags
	cmd := &cobra.Command{
		Use:   "graph [MODEL]",
		Short: "Print a model's graph of operations, and their cost",
		Long: `Graph prints the model as the list of operations that one step runs: what each makes, from what, with which weights.
With --cost it prints, for a step of the given size, each operation's arithmetic (FLOPs: a multiply-add is two) and the
bytes it must at least read and write; with --device also its predicted time there and what bounds it.

MODEL is as for ridge plan: no weights are needed. Without one it is the built-in model.

--pass shows the graph after that pass; they run in this order: ` + pass.Names() + `. --tp, --pp and --ep divide the model
over devices and show the graph of one of them (--stage, --rank), with its collectives. --max-loras gives the graph the
operations of LoRA adapters.

Fuse makes one operation of several where the kernels of --device do; the first on every device:

` + pass.Fusions() + `
A fused operation is one launch; in steps of many rows some launch their parts one by one.`,
		Example: `  ridge graph model.gguf
  ridge graph llama-3.1-8b --type Q4_0 --pass fuse --device h200
  ridge graph model.gguf --cost --tokens 1 --context 4096 --seqs 8
  ridge graph llama-3.1-8b --type Q4_0 --pass all --cost --device h200`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), cmd.OutOrStdout(), strings.Join(args, ""))
		},
	}
	f.shape.add(cmd)
	fl := cmd.Flags()
	fl.StringVar(&f.pass, "pass", "", "show the graph after this pass, or after all; default: as the model builds it, or what --tp, --pp, --ep, --sp, --max-loras or --quantization ask for")
	fl.IntVar(&f.layout.Tensor, "tp", 1, "tensor parallelism: devices that share every layer")
	fl.IntVar(&f.layout.Pipeline, "pp", 1, "pipeline parallelism: stages, each with a range of the layers")
	fl.IntVar(&f.layout.Expert, "ep", 1, "expert parallelism: devices among which the experts of each layer are divided")
	addSequence(fl, &f.layout.Sequence, &f.layout.Method)
	fl.IntVar(&f.rank.Sequence, "sp-rank", 0, "device of --sp to show, from 0")
	fl.IntVar(&f.rank.Replica, "dp-rank", 0, "where more than --tp devices divide experts, which of their replicas of all else to show, from 0")
	fl.IntVar(&f.rank.Tensor, "rank", 0, "device of --tp to show, from 0")
	fl.IntVar(&f.rank.Stage, "stage", 0, "stage of --pp to show, from 0")
	fl.IntVar(&f.adapters.Slots, "max-loras", 0, "LoRA adapters that a step may use; 0: none, with --pass lora 1")
	fl.IntVar(&f.adapters.Rank, "max-lora-rank", 64, "largest rank of a LoRA adapter")
	fl.BoolVar(&f.cost, "cost", false, "print FLOPs and bytes of each operation")
	fl.StringVar(&f.device, "device", "", "fuse for a published device, a profile file, or here; with --cost, also predict the time of each operation there")
	fl.IntVar(&f.tokens, "tokens", 1, "new tokens of each sequence in the step")
	fl.IntVar(&f.context, "context", 0, "tokens of each sequence in the cache")
	fl.IntVar(&f.seqs, "seqs", 1, "sequences in the step")
	return cmd
}

// run prints the graph of a model, or what its operations cost.
func (f *graphFlags) run(ctx context.Context, out io.Writer, arg string) error {
	if f.tokens < 1 || f.context < 0 || f.seqs < 1 {
		return fmt.Errorf("--tokens %d, --context %d, --seqs %d: a step has at least one token and one sequence", f.tokens, f.context, f.seqs)
	}
	if err := checkStep(f.seqs, f.tokens, f.context); err != nil {
		return err
	}
	if err := f.shape.parse(); err != nil {
		return err
	}
	m, err := f.shape.model(arg)
	if err != nil {
		return err
	}
	p := &price.Profile{Act: graph.F32.String(), Q8: true}
	if f.device != "" {
		if p, err = profileNamed(ctx, f.device); err != nil {
			return err
		}
	}
	g, err := f.shape.graph(m, p.ActType())
	if err != nil {
		return err
	}
	o, err := f.shape.passes(p)
	if err != nil {
		return err
	}
	if err := f.setRank(&o); err != nil {
		return err
	}
	if err := f.setAdapters(&o); err != nil {
		return err
	}
	if g, err = pass.Run(g, f.until(), o); err != nil {
		return err
	}
	if !f.cost {
		_, err = io.WriteString(out, g.String())
		return err
	}
	step := &graph.Step{Logits: f.seqs}
	for range f.seqs {
		step.Seqs = append(step.Seqs, graph.Seq{New: f.tokens, Past: f.context})
	}
	if f.device != "" {
		return printPrice(out, g, step, p)
	}
	return printCost(out, g, step)
}

// setRank sets the layout and the device whose graph is shown. Experts that more than --tp devices divide are those of several replicas.
func (f *graphFlags) setRank(o *pass.Options) error {
	for _, n := range []struct {
		flag string
		n    int
	}{{"tp", f.layout.Tensor}, {"pp", f.layout.Pipeline}, {"ep", f.layout.Expert}, {"sp", f.layout.Sequence}} {
		if n.n < 1 || n.n > maxDevices {
			return fmt.Errorf("--%s %d; 1 to %d is possible", n.flag, n.n, maxDevices)
		}
	}
	f.layout.Data = max(f.layout.Expert/f.layout.Tensor/f.layout.Sequence, 1)
	o.Layout, o.Rank = f.layout, f.rank
	return nil
}

// setAdapters gives the graph slots for adapters.
func (f *graphFlags) setAdapters(o *pass.Options) error {
	if f.pass == "lora" && f.adapters.Slots == 0 {
		f.adapters.Slots = 1
	}
	if err := pass.CheckAdapters(f.adapters); err != nil {
		return fmt.Errorf("--max-loras and --max-lora-rank: %w", err)
	}
	o.Adapters = f.adapters
	return nil
}

// until is the pass to show the graph after: the one that was named, or the last that a flag asks for.
func (f *graphFlags) until() string {
	switch {
	case f.pass != "":
		return f.pass
	case f.shape.quantization != "":
		return "weightquant"
	case f.adapters.Slots > 0:
		return "lora"
	case f.layout.Splits():
		return "partition"
	}
	return ""
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
		row(n.Op.Work(n, g.StepOf(n, s)), n.Op.Name()+" "+n.Out[0].Name)
	}
	row(g.Work(s), "total")
	return w.Flush()
}

// printPrice prints a node a line with its work, what bounds it and how long it takes on a device, and the sum.
func printPrice(out io.Writer, g *graph.Graph, s *graph.Step, p *price.Profile) error {
	b, err := price.Price(g, s, p)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "MFLOP\tKB\tFLOP/byte\tbound\tµs\tof roof\t  operation\n")
	row := func(work graph.Work, intensity float64, bound string, seconds, floor float64, name string) {
		fmt.Fprintf(w, "%.3f\t%.1f\t%.2f\t%s\t%.2f\t%.0f %%\t  %s\n", float64(work.FLOPs)/1e6, float64(work.Bytes())/1e3, intensity, bound,
			seconds*1e6, 100*floor/max(seconds, 1e-12), name)
	}
	for _, l := range b.Lines {
		row(l.Work, l.Intensity, l.Bound.String(), l.Seconds, l.Floor, l.Node.Op.Name()+" "+l.Node.Out[0].Name)
	}
	row(b.Work, b.Intensity, "", b.Seconds, b.Floor, "total")
	return w.Flush()
}
