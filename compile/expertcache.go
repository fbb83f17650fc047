package compile

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// expertCache is which experts are in the slots of a group's second device, for all blocks whose experts are on the first. Between steps experts that are used more take the slots of others, a few at a time and
// beside the steps that follow; a slot that is being filled has nobody's share.
type expertCache struct {
	loader backend.ExpertLoader
	blocks []*cachedExperts

	under  int // exchanges under way
	slots  int // of all blocks
	passes atomic.Int64
	hits   atomic.Int64
	made   atomic.Int64 // exchanges

	mu      sync.Mutex
	arrived []filled // exchanges that have ended
}

// ExpertCaching is what an expert cache has done.
type ExpertCaching struct {
	Slots     int   // on the device
	Passes    int64 // rows through experts, of blocks that have slots
	Hits      int64 // of these, through experts in slots
	Exchanges int64 // experts that took the slots of others
}

// cachedExperts is the slots of one block, and how often its experts are used.
type cachedExperts struct {
	slot    []int     // of each expert; -1: none
	holds   []int     // of each slot, the expert; -1: none, it is being filled
	uses    []float32 // of each expert: rows that passed it, older ones counting less
	rows    int       // since uses were halved
	from    []experts // by graph.ExpertGate and so on
	weights []backend.Weight
}

// experts are the matrices, or biases, of all experts of a block.
type experts []quant.Tensor

// filled is a slot and what it has now; or why it has nothing.
type filled struct {
	block        *cachedExperts
	slot, expert int
	err          error
}

const (
	// usesHalved is after how many rows of a block what was counted counts half: the mix of texts changes over thousands of tokens.
	usesHalved = 4096
	// exchangesAtOnce bounds what is copied beside steps.
	exchangesAtOnce = 8
	// exchangeGain and exchangeLead are how many more uses an expert must have than the one whose slot it takes, and how many times as many. A use that is found on the device saves the
	// processor reading the expert, at about the rate at which it is copied once for an exchange, and packed; so an exchange pays after a few uses, and what is even is left.
	exchangeGain, exchangeLead = 8, 1.25
)

// newExpertCache finds the slots of a group's programs; nil: it has none.
func newExpertCache(programs []*Program) (*expertCache, error) {
	var at []*sharesOfCache
	for _, l := range programs[0].launches {
		if s, ok := l.(*sharesOfCache); ok {
			at = append(at, s)
		}
	}
	if len(at) == 0 {
		return nil, nil
	}
	last := programs[len(programs)-1]
	loader, ok := last.dev.(backend.ExpertLoader)
	if !ok {
		return nil, fmt.Errorf("compile: device %s has no slots for experts that change; leave --expert-cache out", last.dev.Info().Name)
	}
	c := &expertCache{loader: loader}
	all, slots := blocks(programs[0], func(o graph.MoE) bool { return o.Cached > 0 }), blocks(last, func(o graph.MoE) bool { return o.Of > 0 })
	if len(all) != len(at) || len(slots) != len(at) {
		return nil, fmt.Errorf("compile: %d blocks of experts with slots, of which %d have experts and %d slots", len(at), len(all), len(slots))
	}
	for i, s := range at {
		b := s.block
		for k, w := range all[i].Weights {
			if slices.Contains(all[i].Weights[:k], w) { // gates and ups that are one
				continue
			}
			b.from = append(b.from, programs[0].weights[w].from)
			b.weights = append(b.weights, last.weights[slots[i].Weights[k]].Weight)
		}
		c.blocks = append(c.blocks, b)
		c.slots += len(b.holds)
		s.cache = c
	}
	return c, nil
}

// blocks are a program's blocks of experts of a kind, in the graph's order.
func blocks(p *Program, of func(o graph.MoE) bool) (all []*graph.Node) {
	for n := range p.Graph.Operations() {
		if o, ok := n.Op.(graph.MoE); ok && of(o) {
			all = append(all, n)
		}
	}
	return all
}

// turn is what is done between steps: what has been copied counts, and what is worth it is begun.
func (c *expertCache) turn() error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	arrived := c.arrived
	c.arrived = nil
	c.mu.Unlock()
	var failed error
	for _, f := range arrived {
		c.under--
		if failed = errors.Join(failed, f.err); f.err == nil {
			f.block.holds[f.slot], f.block.slot[f.expert] = f.expert, f.slot
			c.made.Add(1)
		}
	}
	if failed != nil {
		return fmt.Errorf("compile: experts that are used often are copied to their device: %w", failed)
	}
	if c.under > 0 {
		return nil
	}
	for range exchangesAtOnce {
		best, most := filled{}, float32(0)
		for _, b := range c.blocks {
			if slot, expert, gain := b.worst(); gain > most {
				best, most = filled{block: b, slot: slot, expert: expert}, gain
			}
		}
		if most == 0 {
			return nil
		}
		if err := c.exchange(best); err != nil {
			return err
		}
	}
	return nil
}

// worst is the slot whose expert is used least, the expert without one that is used most, and how much more; gain is 0 where that is not worth an exchange.
func (b *cachedExperts) worst() (slot, expert int, gain float32) {
	slot, expert = -1, -1
	for i, e := range b.holds {
		if e >= 0 && (slot < 0 || b.uses[e] < b.uses[b.holds[slot]]) {
			slot = i
		}
	}
	for e, at := range b.slot {
		if at == none && (expert < 0 || b.uses[e] > b.uses[expert]) {
			expert = e
		}
	}
	if slot < 0 || expert < 0 {
		return slot, expert, 0
	}
	has, wants := b.uses[b.holds[slot]], b.uses[expert]
	if wants < has+exchangeGain || wants < has*exchangeLead {
		return slot, expert, 0
	}
	return slot, expert, wants - has
}

// none is the slot of an expert that has none, and coming that of one that is being copied to one.
const none, coming = -1, -2

// exchange begins to give a slot to another expert.
func (c *expertCache) exchange(f filled) error {
	b := f.block
	b.slot[b.holds[f.slot]], b.holds[f.slot], b.slot[f.expert] = none, -1, coming
	var from []quant.Tensor
	for _, all := range b.from {
		from = append(from, all[f.expert])
	}
	c.under++
	err := c.loader.SetExpert(b.weights, f.slot, from, func(err error) {
		f.err = err
		c.settle(f)
	})
	if err != nil {
		return fmt.Errorf("compile: expert %d: %w", f.expert, err)
	}
	return nil
}

// settle notes that an exchange has ended.
func (c *expertCache) settle(f filled) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.arrived = append(c.arrived, f)
}

// caching is what the cache has done.
func (c *expertCache) caching() ExpertCaching {
	if c == nil {
		return ExpertCaching{}
	}
	return ExpertCaching{Slots: c.slots, Passes: c.passes.Load(), Hits: c.hits.Load(), Exchanges: c.made.Load()}
}

// sharesOfCache is a node that divides shares between experts in slots and the others. The host computes it.
type sharesOfCache struct {
	node      *graph.Node
	in        backend.Buffer
	cold, hot backend.Buffer
	block     *cachedExperts
	cache     *expertCache

	made, slots []float32
}

// String implements backend.Launch.
func (s *sharesOfCache) String() string { return hostText(s.node) }

// newSharesOfCache makes the memory of a CacheShares.
func (p *Program) newSharesOfCache(n *graph.Node) (*sharesOfCache, error) {
	if _, ok := p.dev.(backend.Writer); !ok {
		return nil, p.cannotExchange(n)
	}
	begin := n.Op.(graph.CacheShares).Slots
	b := &cachedExperts{slot: slices.Repeat([]int{none}, begin.Experts), holds: slices.Clone(begin.Of), uses: make([]float32, begin.Experts)}
	for slot, e := range begin.Of {
		b.slot[e] = slot
	}
	return &sharesOfCache{node: n, in: p.where[n.In[0]], cold: p.where[n.Out[0]], hot: p.where[n.Out[1]], block: b}, nil
}

// run divides a step's shares.
func (s *sharesOfCache) run(p *Program, batch *backend.Batch) error {
	b, n := s.block, s.node
	rows := batch.Rows(n.In[0].Rows)
	if rows == 0 {
		return nil
	}
	width, slots := len(b.slot), len(b.holds)
	cold, hot := grown(&s.made, rows*width), grown(&s.slots, rows*slots)
	if err := p.dev.Read(cold, n.In[0], s.in, 0, rows); err != nil {
		return err
	}
	clear(hot)
	passes, hits := 0, 0
	for r := range rows {
		for e, x := range cold[r*width : (r+1)*width] {
			if x == 0 {
				continue
			}
			b.uses[e]++
			passes++
			if at := b.slot[e]; at >= 0 {
				hot[r*slots+at], cold[r*width+e] = x, 0
				hits++
			}
		}
	}
	s.cache.passes.Add(int64(passes))
	s.cache.hits.Add(int64(hits))
	if b.rows += rows; b.rows >= usesHalved {
		b.rows = 0
		for e := range b.uses {
			b.uses[e] /= 2
		}
	}
	to := p.dev.(backend.Writer)
	return errors.Join(to.Write(n.Out[0], s.cold, cold, rows), to.Write(n.Out[1], s.hot, hot, rows))
}
