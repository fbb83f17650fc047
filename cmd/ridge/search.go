package main

import (
	"encoding/json"
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ridge-llm/ridge/internal/device"
	"github.com/ridge-llm/ridge/internal/hub"
	"github.com/ridge-llm/ridge/internal/shelf"
	"github.com/ridge-llm/ridge/internal/size"
)

func searchCommand() *cobra.Command {
	var asJSON bool
	var backend string
	cmd := &cobra.Command{
		Use:   "search [WORD ...]",
		Short: "List models by their short names, and what they need",
		Long: `Search lists the models that have short names, those in which all words are: where they are on the Hugging Face hub, how large they are, the
memory that they need, and whether this machine has it. MODELS.md recommends some. Any other model on the hub is pulled by its own name, ORG/REPO:QUANT;
ridge alias gives a model a name of your own.`,
		Example: "  ridge search\n  ridge search code\n  ridge search qwen3 --backend cuda",
		RunE: func(cmd *cobra.Command, args []string) error {
			found, memory := shelf.Search(args), device.Memory(backend)
			h, err := newHub()
			if err != nil {
				return err
			}
			rows := make([]searchRow, len(found))
			for i, m := range found {
				rows[i] = searchRow{Model: m, Name: m.Name(), Needs: m.Needs(), Fits: memory == 0 || m.Fits(memory, device.OnGPU(backend))}
				if r, err := hub.ParseRef(m.Ref()); err == nil {
					_, err = h.Find(r)
					rows[i].Here = err == nil
				}
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(rows)
			}
			if len(rows) == 0 {
				fmt.Fprintln(os.Stderr, "ridge: no short name has these words; ridge search without words lists all, and ridge pull takes ORG/REPO of the Hugging Face hub too")
				return nil
			}
			w := tabwriter.NewWriter(heading(cmd.OutOrStdout()), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "NAME\tSIZE\tNEEDS\tHERE\tABOUT\tON THE HUB")
			for _, r := range rows {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", r.Name, hub.Bytes(r.Bytes), hub.Bytes(r.Needs), r.state(), r.About, r.Ref())
			}
			if memory > 0 {
				fmt.Fprintf(os.Stderr, "ridge: this machine has %s for models; - in HERE: too little for that one\n", size.Text(memory))
			}
			return w.Flush()
		},
	}
	addJSON(cmd.Flags(), &asJSON)
	cmd.Flags().StringVar(&backend, "backend", "cpu", "whose memory models are to fit in: cpu, cuda, cuda:1")
	return cmd
}

// searchRow is a line of search.
type searchRow struct {
	shelf.Model
	Name  string `json:"name"`
	Needs int64  `json:"needs_bytes"`
	Fits  bool   `json:"fits"`
	Here  bool   `json:"here"`
}

// state is whether the model is here, or could be.
func (r searchRow) state() string {
	switch {
	case r.Here:
		return "yes"
	case !r.Fits:
		return "-"
	}
	return "no"
}
