// Package pass turns graphs into other graphs that mean the same: one file per pass, and the ordered list of them.
package pass

import (
	"fmt"
	"strings"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// Pass is one rewriting of a graph.
type Pass struct {
	Name string
	Why  string // of its place in the order
	Run  func(*graph.Graph, Options) (*graph.Graph, error)
}

// Options is what passes depend on beside the graph.
type Options struct {
	Layout Layout      // over devices; see Partition
	Rank   Rank        // the device whose graph is made
	Loads  ExpertLoads // by which experts are placed where devices with different rows divide them

	Q8   bool // the device multiplies block formats in integers, so inputs are quantised; see ActQuant
	BF16 bool // the device multiplies BF16 weights faster with BF16 inputs, so activations are rounded

	Kernels Kernels // what the device computes as one; nil: Fuse makes what is the same for every device

	Adapters Adapters // LoRA that steps may use; the zero value: none

	Inputs Inputs // how those of matrices in INT8 are rounded, where they are floats

	Weights quant.Format // that matrices in floats are quantised to on load; Invalid: they stay as they are
}

// List is every pass in the order in which they run.
var List = []Pass{
	{"partition", "first: the others see the shards that the device computes with", Partition},
	{"lora", "after partition, which cuts matrices alone; before the others: adapters see rows as the model means them, and fusions what is left", LoRA},
	{"weightquant", "before actquant: the dtype of activations follows from it", WeightQuant},
	{"roundinputs", "after weightquant, for the same reason; before fuse, which leaves what it adds alone", RoundInputs},
	{"actquant", "before fuse, which makes one node of the quantising and the norm before it", ActQuant},
	{"fuse", "last: it makes one node of several, which other passes would have to take apart again", Fuse},
}

// Names is the list as text, in order.
func Names() string {
	var names []string
	for _, p := range List {
		names = append(names, p.Name)
	}
	return strings.Join(names, ", ")
}

// All is the name that runs every pass.
const All = "all"

// Run runs the passes up to and including the one called until: "" runs none, All runs every one. The graph is
// verified after each. With adapters all passes give the graph of steps without any as well: see graph.Graph.Plain.
func Run(g *graph.Graph, until string, o Options) (*graph.Graph, error) {
	if until == "" {
		return g, nil
	}
	var plain *graph.Graph
	for _, p := range List {
		next, err := p.Run(g, o)
		if err != nil {
			return nil, fmt.Errorf("pass %s: %w", p.Name, err)
		}
		if plain != nil {
			without := o
			without.Adapters = Adapters{}
			if plain, err = p.Run(plain, without); err != nil {
				return nil, fmt.Errorf("pass %s without adapters: %w", p.Name, err)
			}
		}
		if until == All && p.Name == beforeAdapters && o.Adapters.Slots > 0 {
			plain = next
		}
		if g = next; p.Name == until {
			return g, nil
		}
	}
	if until != All {
		return nil, fmt.Errorf("pass: there is no pass %q; there are %s", until, Names())
	}
	if plain != nil {
		with := *g
		with.Plain = plain
		return &with, nil
	}
	return g, nil
}

// beforeAdapters is the last pass that graphs of steps with and without adapters have in common.
const beforeAdapters = "partition"
