package cpu

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/attn"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// int4Write stores the step's keys and values in the residual cache of one of I4, and quantises the groups of tokens that they fill.
type int4Write struct {
	dev             *Device
	cache, residual *attn.Cache
	group, newest   int // of caches
	k, v            []float32
	kLen, vLen      int
	pageSize        int
}

func bindInt4Write(d *Device, n *graph.Node, a backend.Args, cache *attn.Cache) (body, error) {
	residual, err := cacheOf(n.In[3].Cache, a.Out[1], a.Limits)
	if err != nil {
		return nil, err
	}
	t := &int4Write{
		dev: d, cache: cache, residual: residual, group: n.In[0].Cache.Group, newest: n.In[3].Cache.Group, k: floats(a.In[1]), v: floats(a.In[2]),
		kLen: cache.Heads * cache.KeySize, vLen: cache.Heads * cache.ValueSize, pageSize: a.Limits.PageSize,
	}
	scratch := raw(a.Scratch)
	each := len(scratch) / d.pool.N()
	return func(w *worker, b *backend.Batch) { t.run(w, b, scratch[w.id*each:(w.id+1)*each]) }, nil
}

// int4Scratch holds a head's group in float32, and a head's numbers in F16.
func int4Scratch(c *graph.Cache) int64 {
	group := 4 * quant.Int4Group * (c.K.Size + c.V.Size)
	return int64(group+2*max(c.K.Size, c.V.Size)+63) / 64 * 64
}

func (t *int4Write) run(w *worker, b *backend.Batch, scratch []byte) {
	from, to := w.rowShare(len(b.Tokens))
	seq := 0
	size := 4 * quant.Int4Group * (t.cache.KeySize + t.cache.ValueSize)
	slots, group, half := b.Table(t.newest).Slots, as[float32](scratch[:size]), as[uint16](scratch[size:])
	for r := from; r < to; r++ {
		t.residual.Write(t.dev.vec, int(slots[r]), t.k[r*t.kLen:(r+1)*t.kLen], t.v[r*t.vLen:(r+1)*t.vLen], half)
		for r >= int(b.QStart[seq+1]) {
			seq++
		}
		if at := b.Past(seq) + r - int(b.QStart[seq]); (at+1)%quant.Int4Group == 0 {
			t.quantize(b, seq, r, at, group)
		}
	}
}

// quantize quantises the group of tokens that ends with row r, token at of its sequence. Those of this step are taken from the step's rows, rounded as the residual cache has
// them, since other workers may still be writing them there.
func (t *int4Write) quantize(b *backend.Batch, seq, r, at int, scratch []float32) {
	const tokens = quant.Int4Group
	keySize, valueSize := t.cache.KeySize, t.cache.ValueSize
	k, v := scratch[:tokens*keySize], scratch[tokens*keySize:]
	pages := b.Table(t.newest).Pages[seq*b.SeqPages:]
	for h := range t.cache.Heads {
		for i := range tokens {
			key, value := k[i*keySize:(i+1)*keySize], v[i*valueSize:(i+1)*valueSize]
			row, token := r-tokens+1+i, at-tokens+1+i
			if row < int(b.QStart[seq]) {
				t.residual.ReadHead(int(pages[token/t.pageSize])*t.pageSize+token%t.pageSize, h, key, value)
				continue
			}
			roundF16(key, t.k[row*t.kLen+h*keySize:])
			roundF16(value, t.v[row*t.vLen+h*valueSize:])
		}
		t.cache.WriteInt4(int(b.Table(t.group).Slots[r]), h, k, v)
	}
}

// roundF16 is len(dst) numbers as F16 has them.
func roundF16(dst, src []float32) {
	for i := range dst {
		dst[i] = quant.F16ToF32(quant.F32ToF16(src[i]))
	}
}
