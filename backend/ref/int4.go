package ref

import (
	"encoding/binary"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// int4Part is one half of a group of tokens in a cache of I4, keys or values: a code of each number, token by token, two to a byte, and then the scales and minima: of keys
// one for each channel, of values one for each token and run of channels.
type int4Part struct {
	codes, ranges []byte
	width, run    int // numbers of a token, and those of a row of ranges that share one
	perToken      bool
}

// int4Group is the group of a slot.
func int4Group(c *graph.Cache, b backend.Buffer, pageSize, slot int) (keys, values int4Part) {
	const tokens = quant.Int4Group
	size := tokens * c.RowBytes()
	off := b.Off + int64(slot/pageSize*pageSize/tokens+slot%pageSize/tokens)*size
	mem := b.Mem.(*memory).bytes[off : off+size]
	take := func(n int) []byte {
		part := mem[:n]
		mem = mem[n:]
		return part
	}
	keys = int4Part{width: c.K.Len(), run: 1}
	keys.codes, keys.ranges = take(tokens*keys.width/2), take(4*keys.width)
	values = int4Part{width: c.V.Len(), run: quant.Int4Run(c.V.Size), perToken: true}
	values.codes, values.ranges = take(tokens*values.width/2), take(4*tokens*values.width/values.run)
	return keys, values
}

// pair is where the scale and minimum of a number lie.
func (p *int4Part) pair(token, i int) []byte {
	at := i / p.run
	if p.perToken {
		at += token * p.width / p.run
	}
	return p.ranges[4*at:]
}

// store quantises the numbers of all tokens, [Int4Group][width].
func (p *int4Part) store(x []float32) {
	var ranges []quant.Int4Range
	if p.perToken {
		for at := 0; at < len(x); at += p.run {
			ranges = append(ranges, quant.Int4RangeOf(x[at:], p.run, 1))
		}
	} else {
		for i := range p.width {
			ranges = append(ranges, quant.Int4RangeOf(x[i:], quant.Int4Group, p.width))
		}
	}
	for i, r := range ranges {
		binary.LittleEndian.PutUint16(p.ranges[4*i:], r.Scale)
		binary.LittleEndian.PutUint16(p.ranges[4*i+2:], r.Min)
	}
	clear(p.codes)
	for i, v := range x {
		pair := p.pair(i/p.width, i%p.width)
		r := quant.Int4Range{Scale: binary.LittleEndian.Uint16(pair), Min: binary.LittleEndian.Uint16(pair[2:])}
		p.codes[i/2] |= r.Code(v) << (i % 2 * 4)
	}
}

// load decodes the numbers of a token of the group.
func (p *int4Part) load(dst []float32, token int) {
	for i := range dst {
		at, pair := token*p.width+i, p.pair(token, i)
		r := quant.Int4Range{Scale: binary.LittleEndian.Uint16(pair), Min: binary.LittleEndian.Uint16(pair[2:])}
		scale, minimum := r.Floats()
		dst[i] = scale*float32(p.codes[at/2]>>(at%2*4)&15) + minimum
	}
}

// slotOf is where token k of sequence s lies in a cache group.
func slotOf(b *backend.Batch, group, s, k, pageSize int) int {
	return int(b.Table(group).Pages[s*b.SeqPages+k/pageSize])*pageSize + k%pageSize
}

// quantizeGroups quantises those groups of tokens of a cache of I4 that the step has filled, from its residual cache.
func quantizeGroups(d *Device, n *graph.Node, a backend.Args) {
	c, residual := n.In[0].Cache, n.In[3].Cache
	b, size := d.batch, a.Limits.PageSize
	for s := range b.Seqs() {
		for r := int(b.QStart[s]); r < int(b.QStart[s+1]); r++ {
			at := b.Past(s) + r - int(b.QStart[s])
			if (at+1)%quant.Int4Group != 0 {
				continue
			}
			k, v := make([]float32, quant.Int4Group*c.K.Len()), make([]float32, quant.Int4Group*c.V.Len())
			for i := range quant.Int4Group {
				slot := slotOf(b, residual.Group, s, at+1-quant.Int4Group+i, size)
				loadHeads(k[i*c.K.Len():(i+1)*c.K.Len()], residual.Type, c.K, cacheRow(residual, a.Out[1], size, slot, false))
				loadHeads(v[i*c.V.Len():(i+1)*c.V.Len()], residual.Type, c.V, cacheRow(residual, a.Out[1], size, slot, true))
			}
			keys, values := int4Group(c, a.Out[0], size, int(b.Table(c.Group).Slots[r]))
			keys.store(k)
			values.store(v)
		}
	}
}
