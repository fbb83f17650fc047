package hiddenmodel

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine/draft"
)

// Trees as EAGLE-2 grows them (Li et al., arXiv:2406.16858): of the tokens of a depth, those that the layer is most confident of, as the last of their branch, are gone on
// from, and of all tokens that it came to see those that it is most confident of are the draft. The layer is confident of a branch by the product of its probabilities.
//
// Each depth is a step of the layer over the whole tree so far, from the sequence's last token on, since only rows of one step can be a token tree.

const (
	// MaxBranch is the most tokens that are considered after one, and gone on from at a depth.
	MaxBranch = 16
	treeDepth = 6 // of a tree, at most
)

// node is a token that the layer came to see.
type node struct {
	token  int32
	parent int // in tree.nodes; -1: the sequence's last token
	depth  int // 1 after that
	log    float64
	row    int // in the step that computed it last; -1: it is not gone on from
}

// tree is a draft while it grows.
type tree struct {
	nodes    []node
	frontier []int // nodes to go on from, whose rows have not been computed
	rows     []int // nodes whose rows are computed, in order
	root     compile.DeviceRows
	rootRow  int // of root: the hidden state before the sequence's last token
	tokens   []int32
	parents  []int
}

// Trees implements draft.Branching.
func (d *drafter) Trees() bool { return d.Branch > 1 }

// depthOf is how deep a tree of so many tokens grows.
func depthOf(tokens int) int { return min(tokens, treeDepth) }

// grow makes trees of the active sequences' drafts. The step before has computed the rows of their last tokens, at x.from.
func (d *drafter) grow() error {
	for _, x := range d.active {
		t := &x.tree
		*t = tree{nodes: t.nodes[:0], frontier: t.frontier[:0], rows: t.rows[:0], tokens: t.tokens[:0], parents: t.parents[:0]}
		t.root, t.rootRow = d.Target[0], int(x.computed.Rows[len(x.computed.Rows)-1])
		if d.Combine != nil {
			t.root, t.rootRow = d.Combine.Kept(0), x.from
		}
	}
	all := slices.Clone(d.active)
	if err := d.expand(all, func(*slot) []int { return []int{-1} }); err != nil {
		return err
	}
	for depth := 2; depth <= treeDepth; depth++ {
		going := slices.DeleteFunc(slices.Clone(all), func(x *slot) bool {
			return depth > depthOf(x.sequence.Max) || len(x.tree.frontier) == 0 || x.room(d.lim.Tokens/len(all)) < 1
		})
		if len(going) == 0 {
			break
		}
		began := time.Now()
		if err := d.growStep(going); err != nil {
			return err
		}
		d.times.Observe(len(going), time.Since(began).Seconds())
	}
	for _, x := range all {
		x.finishTree()
	}
	d.active = d.active[:0]
	return nil
}

// room is how many nodes a tree can still be gone on from, where a step has so many rows for it: no more than the draft has tokens.
func (x *slot) room(rows int) int { return min(rows-1, x.sequence.Max) - len(x.tree.rows) }

// growStep computes the trees so far with their frontiers, and goes on from those.
func (d *drafter) growStep(going []*slot) error {
	d.batch.Reset(1, d.lim.SeqPages)
	b := &d.batch
	for _, x := range going {
		t, first := &x.tree, len(b.Tokens)
		t.frontier = t.frontier[:min(len(t.frontier), d.lim.Logits/len(going), x.room(d.lim.Tokens/len(going)))]
		t.rows = append(t.rows, t.frontier...)
		last := len(x.sequence.Tokens) - 1
		tokens := append(t.tokens[:0], x.sequence.Tokens[last])
		for _, i := range t.rows {
			tokens = append(tokens, t.nodes[i].token)
		}
		t.tokens = tokens[:0]
		d.append(x, tokens, last-1, len(x.positions)-1)
		if err := d.Layer.CopyRows(d.Layer.Input(0), first, t.root, t.rootRow, 1); err != nil {
			return err
		}
		masks := append(b.Ancestors, 1)
		for k, i := range t.rows {
			n := &t.nodes[i]
			from, mask := x.from, uint64(1)
			if n.parent >= 0 {
				from, mask = t.nodes[n.parent].row, masks[first+1+slices.Index(t.rows, n.parent)]
			}
			if err := d.Layer.CopyRows(d.Layer.Input(0), first+1+k, d.Layer.Kept(0), from, 1); err != nil {
				return err
			}
			masks = append(masks, mask|1<<(k+1))
			b.Positions[first+1+k] = int32(last - 1 + n.depth)
		}
		b.Ancestors, b.TreeLen = masks, append(b.TreeLen, int32(len(tokens)))
		for k := len(t.rows) - len(t.frontier); k < len(t.rows); k++ {
			b.LogitsIndices = append(b.LogitsIndices, int32(first+1+k))
		}
	}
	if err := d.run(d.Layer); err != nil {
		return err
	}
	row := 0
	for _, x := range going { // rows are those of this step from here on
		x.from = row
		for k, i := range x.tree.rows {
			x.tree.nodes[i].row = row + 1 + k
		}
		row += 1 + len(x.tree.rows)
	}
	return d.expand(going, func(x *slot) []int { return x.tree.frontier })
}

// expand adds what may come after nodes to the trees, of which the step at hand has computed the logits in order, and chooses the nodes to go on from.
func (d *drafter) expand(all []*slot, of func(*slot) []int) error {
	rows := 0
	for _, x := range all {
		rows += len(of(x))
	}
	vocab := d.Layer.Vocab()
	logits, err := d.Layer.Rows(d.buffer, rows)
	if err != nil {
		return err
	}
	for _, x := range all {
		t, from := &x.tree, len(x.tree.nodes)
		for _, parent := range of(x) {
			before, depth := 0.0, 1
			if parent >= 0 {
				before, depth = t.nodes[parent].log, t.nodes[parent].depth+1
			}
			for _, c := range d.likeliest(logits[:vocab]) {
				t.nodes = append(t.nodes, node{token: c.token, parent: parent, depth: depth, log: before + c.log, row: -1})
			}
			logits = logits[vocab:]
		}
		t.frontier = t.frontier[:0]
		for i := from; i < len(t.nodes); i++ {
			if int(t.nodes[i].token) < d.Layer.Ids() {
				t.frontier = append(t.frontier, i)
			}
		}
		slices.SortStableFunc(t.frontier, func(i, j int) int { return cmp.Compare(t.nodes[j].log, t.nodes[i].log) })
		t.frontier = t.frontier[:min(len(t.frontier), d.Branch)]
	}
	return nil
}

// candidate is a token with the logarithm of its probability.
type candidate struct {
	token int32
	log   float64
}

// likeliest is the Branch likeliest tokens of a row of logits, as the target's ids, the likeliest first.
func (d *drafter) likeliest(logits []float32) []candidate {
	list := d.likely[:0]
	top := math.Inf(-1)
	for i, x := range logits {
		v := float64(x)
		top = max(top, v)
		if len(list) == d.Branch && v <= list[len(list)-1].log {
			continue
		}
		if len(list) < d.Branch {
			list = append(list, candidate{})
		}
		at := len(list) - 1
		for at > 0 && list[at-1].log < v {
			list[at] = list[at-1]
			at--
		}
		list[at] = candidate{int32(i), v}
	}
	sum := 0.0
	for _, x := range logits {
		sum += math.Exp(float64(x) - top)
	}
	for i := range list {
		if list[i].log -= top + math.Log(sum); d.Tokens != nil {
			list[i].token = d.Tokens[list[i].token]
		}
	}
	d.likely = list
	return list
}

// finishTree makes the draft of the tokens that the layer is most confident of. A parent is at least as sure as its children, and comes before them.
func (x *slot) finishTree() {
	t := &x.tree
	order := make([]int, len(t.nodes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(t.nodes[j].log, t.nodes[i].log) })
	order = order[:min(len(order), x.sequence.Max)]
	t.tokens, t.parents = t.tokens[:0], t.parents[:0]
	for _, i := range order {
		t.tokens, t.parents = append(t.tokens, t.nodes[i].token), append(t.parents, slices.Index(order, t.nodes[i].parent))
	}
	x.sequence.Draft = draft.Draft{Tokens: t.tokens, Parents: t.parents}
	x.sequence = nil
}

// checkBranch refuses trees beyond the bound.
func checkBranch(n int) error {
	if n < 0 || n > MaxBranch {
		return fmt.Errorf("trees of %d tokens after one (eagle_topk); 1 (chains) to %d are possible", n, MaxBranch)
	}
	return nil
}

// treeLogits is how many rows of logits a step of the layer has for so many sequences at most: those of their frontiers, as far as memory is worth it.
func treeLogits(target backend.Limits, branch int) int {
	const most = 256
	return min(target.Seqs*max(branch, 1), max(target.Seqs, most))
}
