package vec

import "github.com/ridge-llm/ridge/quant"

// sparsePlaces says, for each mask of eight numbers, where the bytes of a stored 16-bit number go, by the place of the number: what byte shuffles
// take, in which 0x80 is a zero.
var sparsePlaces = func() (table [256][16]byte) {
	for mask := range table {
		next := byte(0)
		for i := range 8 {
			at := table[mask][2*i : 2*i+2]
			if at[0], at[1] = 0x80, 0x80; mask>>i&1 != 0 {
				at[0], at[1] = next, next+1
				next += 2
			}
		}
	}
	return table
}()

// ExpandSparse decodes a row of whole blocks in BF16_2_4 or F16_2_4.
func (o Ops) ExpandSparse(f quant.Format, dst []float32, src []byte) {
	n := len(dst) / f.Block()
	if n == 0 {
		return
	}
	_ = src[n*f.BlockBytes()-1]
	expand := o.k.expandBF16
	if f == quant.F16_2_4 {
		expand = o.k.expandF16
	}
	if expand == nil {
		quant.Decode(f, dst, src)
		return
	}
	expand(&dst[0], &src[0], n, &sparsePlaces[0][0])
}
