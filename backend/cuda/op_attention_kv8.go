package cuda

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	prefillsm90 "github.com/ridge-llm/ridge/backend/cuda/kernels/attention/prefill_sm90"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/quant/kv8"
	"github.com/ridge-llm/ridge/graph"
)

// Prompts on a cache of eight-bit numbers: the pages of a few sequences at a time are dequantised to fp16 in scratch memory, where
// the tensor cores' kernel reads them. It writes and reads each number of the cache once more, of a layer at a time: 8,192 tokens
// of Llama-3.1-8B are 50 MB, about a fiftieth of the time that their attention takes.

// leastDequantised is how many tokens there is always room for, so that short prompts go in one launch together.
const leastDequantised = 16 << 10

// dequantisedPages is how many dequantised pages there is room for: those of the longest sequence at least.
func dequantisedPages(lim backend.Limits) int {
	return (max(leastDequantised, lim.PageSize*lim.SeqPages) + kv8.PageSize - 1) / kv8.PageSize
}

// dequantisedPagesBytes is the scratch memory: dequantised pages, and a table of them for each sequence.
func dequantisedPagesBytes(c *graph.Cache, lim backend.Limits) int64 {
	pages := int64(dequantisedPages(lim))
	return pages*kv8.PageSize*2*int64(c.K.Len()+c.V.Len()) + 4*pages*int64(lim.Seqs)
}

// bindKV8Prompts is the attention of prompts on such a cache; p is as if the cache were read where it lies.
func (d *Device) bindKV8Prompts(c *graph.Cache, a backend.Args, p prefillsm90.Problem) (func(*step) error, error) {
	room := dequantisedPages(a.Limits)
	p.Cache, p.Pages, p.PageSize, p.Type = at(a.Scratch), room, kv8.PageSize, graph.F16
	open, err := kv8.Dequantise(d.loader, c.Type)
	if err != nil {
		return nil, err
	}
	attend, err := d.findPrompts(p)
	if err != nil {
		return nil, err
	}
	o := &kv8.DequantiseParams{
		Cache: at(a.In[1]), Pages16: p.Cache, Table: p.Cache + driver.Ptr(room*kv8.PageSize*2*(c.K.Len()+c.V.Len())),
		Heads: int32(c.K.Count), KSize: int32(c.K.Size), VSize: int32(c.V.Size), Window: int32(c.Window),
	}
	return func(s *step) error {
		step := s.of(c)
		return eachOpened(s, room, func(g group, tiles int) error {
			o.Step, o.FirstSeq, o.Pages = step, int32(g.first), int32(g.longest)
			if err := kv8.LaunchDequantise(d.stream, open, g.last-g.first+1, o); err != nil {
				return err
			}
			view := dequantisedStep(step, o.Table, o.Pages, tiles)
			return attend.Launch(d.stream, &view, g.tiles, g.pages*kv8.PageSize)
		})
	}, nil
}

// eachOpened calls do for the groups of a step's prompts, with how many tiles those before have.
func eachOpened(s *step, room int, do func(g group, tiles int) error) error {
	tiles := 0
	for _, g := range together(s.prompts, room) {
		if err := do(g, tiles); err != nil {
			return err
		}
		tiles += g.tiles
	}
	return nil
}

// dequantisedStep is a step whose pages are dequantised ones, from a tile of its list on.
func dequantisedStep(step kernels.Step, table driver.Ptr, pages int32, tiles int) kernels.Step {
	step.Pages, step.SeqPages, step.PageShift = table, pages, kv8.PageShift
	step.Tiles += driver.Ptr(8 * tiles)
	return step
}

// group is prompts whose pages are dequantised together.
type group struct{ first, last, tiles, pages, longest int }

// together cuts a step's prompts into groups of at most room dequantised pages. A sequence alone always fits.
func together(prompts []prompt, room int) []group {
	var all []group
	for _, p := range prompts {
		pages := (p.length + kv8.PageSize - 1) / kv8.PageSize
		if n := len(all); n == 0 || all[n-1].pages+pages > room {
			all = append(all, group{first: p.seq})
		}
		g := &all[len(all)-1]
		g.last, g.tiles, g.pages, g.longest = p.seq, g.tiles+p.tiles, g.pages+pages, max(g.longest, pages)
	}
	return all
}
