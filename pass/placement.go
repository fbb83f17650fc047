package pass

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"

	"github.com/ridge-llm/ridge/graph"
)

// ExpertLoads has devices with different rows divide experts by how many rows came to them, and hot ones be on several devices. The zero value: in order, each on one.
type ExpertLoads struct {
	Counts map[string][]float32 // rows that came to each expert, by the names of stacks in GGUF's naming: "blk.0.ffn_gate_exps.weight"
	Extra  int                  // experts that each device has beside an equal share of them
}

// Given reports whether there is anything to place by.
func (l ExpertLoads) Given() bool { return l.Extra > 0 || len(l.Counts) > 0 }

// String tells loads from others.
func (l ExpertLoads) String() string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(l.Counts)) {
		fmt.Fprint(sum, name, l.Counts[name])
	}
	return fmt.Sprintf("%d more by %x", l.Extra, sum.Sum(nil)[:4])
}

// placed is which experts each device has, of one block.
func (l ExpertLoads) placed(n *graph.Node, o graph.MoE, devices int) (*graph.Placed, error) {
	slots := o.Experts/devices + l.Extra
	if slots > o.Experts {
		return nil, fmt.Errorf("%d experts beside the %d that each of %d devices has of %d are more than there are", l.Extra, o.Experts/devices, devices, o.Experts)
	}
	loads, err := l.of(n, o)
	if err != nil {
		return nil, err
	}
	placed := &graph.Placed{Experts: o.Experts}
	for _, list := range PlaceExperts(loads, devices, slots) {
		placed.Of = append(placed.Of, list...)
	}
	return placed, nil
}

// of is how many rows came to each expert of a block; 1 each where there are no counts of it.
func (l ExpertLoads) of(n *graph.Node, o graph.MoE) ([]float32, error) {
	for _, w := range n.Weights[:graph.ExpertMatrices] {
		if counts, ok := l.Counts[w.Tensor]; ok {
			if len(counts) != o.Experts {
				return nil, fmt.Errorf("there are counts of %d experts of %s, which has %d; they are of another model", len(counts), w.Tensor, o.Experts)
			}
			return counts, nil
		}
	}
	return slices.Repeat([]float32{1}, o.Experts), nil
}

// PlaceExperts is which experts each device has, of so many slots each: every expert once at least and, where there are more slots than experts, the one with the highest load for each of its copies once more, until
// all slots are taken. Then the heaviest copy goes to the device with the least load that has room and not this expert (as DeepSeek's EPLB divides experts within a group).
func PlaceExperts(loads []float32, devices, slots int) [][]int {
	copies := slices.Repeat([]int{1}, len(loads))
	each := func(e int) float64 { return float64(loads[e]) / float64(copies[e]) }
	for range devices*slots - len(loads) {
		best := -1
		for e := range loads {
			if copies[e] < devices && (best < 0 || each(e) > each(best)) {
				best = e
			}
		}
		copies[best]++
	}
	var all []int
	for e, n := range copies {
		all = append(all, slices.Repeat([]int{e}, n)...)
	}
	slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(each(b), each(a)) })
	places, load := make([][]int, devices), make([]float64, devices)
	for _, e := range all {
		best, full := -1, -1
		for d := range places {
			switch has := slices.Contains(places[d], e); {
			case has:
			case len(places[d]) == slots:
				full = d
			case best < 0 || load[d] < load[best]:
				best = d
			}
		}
		if best < 0 { // what has room has this expert: another one makes room elsewhere
			room := slices.IndexFunc(places, func(list []int) bool { return len(list) < slots })
			i := slices.IndexFunc(places[full], func(other int) bool { return !slices.Contains(places[room], other) })
			moved := places[full][i]
			places[full], places[room] = slices.Delete(places[full], i, i+1), append(places[room], moved)
			load[full], load[room], best = load[full]-each(moved), load[room]+each(moved), full
		}
		places[best] = append(places[best], e)
		load[best] += each(e)
	}
	for _, list := range places {
		slices.Sort(list)
	}
	return places
}

// place finds which experts each device has of every block, where loads say more than their order.
func (p *partitioner) place(loads ExpertLoads) error {
	if !loads.Given() {
		return nil
	}
	if p.layout.ExpertSlots > 0 { // see cacheExperts
		return nil
	}
	if !p.layout.expertsOfRows() {
		return fmt.Errorf("experts are placed by load where devices with different rows divide them (--dp, or --ep over all of --sp), and the layout is %s", p.layout)
	}
	known := len(loads.Counts) == 0
	p.places = map[*graph.Node]*graph.Placed{}
	for _, n := range p.graph.Nodes {
		if o, ok := n.Op.(graph.MoE); ok {
			placed, err := loads.placed(n, o, p.layout.expert())
			if err != nil {
				return fmt.Errorf("%s: %w", n.Out[0].Name, err)
			}
			p.places[n] = placed
			known = known || loads.Counts[n.Weights[graph.ExpertGate].Tensor] != nil || loads.Counts[n.Weights[graph.ExpertUp].Tensor] != nil || loads.Counts[n.Weights[graph.ExpertDown].Tensor] != nil
		}
	}
	if !known {
		return fmt.Errorf("what experts are placed by counts none of the experts of %s; it is of another model, or of one without experts", p.graph.Name)
	}
	return nil
}

// chosen is some matrices of a stack.
func chosen(r *graph.Rewriter, w *graph.Weight, stack graph.Axis, experts []int) *graph.Weight {
	return r.Made(w, graph.Weight{Stack: stack, Out: w.Out, In: w.In}, matricesOf(w, experts), fmt.Sprint(experts))
}
