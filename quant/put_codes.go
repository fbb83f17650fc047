package quant

// putter writes a block of whole codes without sign that stand for scale·(code − zero). Scales, and what goes with a zero point, are
// rounded to f16.
type putter func(block, codes []byte, scale float32, zero int)

// PutCodes writes a block of Block() codes without sign, x = scale·(code − zero), of a format that holds them as they are: where checkpoints
// of whole numbers are laid out in blocks: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, UINT4 and UINT8.
func PutCodes(f Format, block, codes []byte, scale float32, zero int) {
	descriptors[f].put(block, codes, scale, zero)
}

// putNibbles writes 32 codes of four bits, each plus add: number j beside number j+16.
func putNibbles(dst, codes []byte, add int) {
	a, c := byte(add), (*[32]byte)(codes)
	for j := range 16 {
		dst[j] = (c[j] + a) | (c[j+16]+a)<<4
	}
}

// putFives writes 32 codes of five bits, each plus add: four as putNibbles does, and the fifths of all as the bits of high.
func putFives(high, dst, codes []byte, add int) {
	a, c := byte(add), (*[32]byte)(codes)
	fifths := uint32(0)
	for j := range 16 {
		x, y := c[j]+a, c[j+16]+a
		dst[j] = x&15 | y<<4
		fifths |= uint32(x>>4)<<j | uint32(y>>4)<<(j+16)
	}
	order.PutUint32(high, fifths)
}
