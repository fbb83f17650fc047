package slab

import "github.com/ridge-llm/ridge/quant"

// blocks gives the blocks, of the given bytes, of a unit of a row in a format whose blocks have 32 numbers.
func blocks(row []byte, unit, bytes int) []byte {
	from := min(unit*(columns/32)*bytes, len(row))
	return row[from:min(from+columns/32*bytes, len(row))]
}

func sixteen(b []byte) [2]uint64 { return [2]uint64{order.Uint64(b), order.Uint64(b[8:])} }

func readQ4_0(to *line, row []byte, unit int) {
	for i, b := 0, blocks(row, unit, 18); len(b) > 0; i, b = i+1, b[18:] {
		to.scales[i], to.four[i] = order.Uint16(b), sixteen(b[2:])
	}
}

func readINT4(to *line, row []byte, unit int) {
	const bytes = 66
	if b := row[min(unit*bytes, len(row)):]; len(b) > 0 {
		to.scales[0] = order.Uint16(b)
		for i := range to.four {
			to.four[i] = sixteen(b[2+16*i:])
		}
	}
}

// readQ4_1 stores the middle of a block's range, code 8, instead of its floor: it is small, so that little is lost when it is rounded.
func readQ4_1(to *line, row []byte, unit int) {
	for i, b := 0, blocks(row, unit, 20); len(b) > 0; i, b = i+1, b[20:] {
		scale, floor := quant.F16ToF32(order.Uint16(b)), quant.F16ToF32(order.Uint16(b[2:]))
		to.scales[i], to.scales[4+i], to.four[i] = order.Uint16(b), half(floor+8*scale), sixteen(b[4:])
	}
}

// readQ8_0 adds 128 to the signed codes.
func readQ8_0(to *line, row []byte, unit int) {
	for i, b := 0, blocks(row, unit, 34); len(b) > 0; i, b = i+1, b[34:] {
		to.scales[i] = order.Uint16(b)
		for j := range 4 {
			to.eight[i][j] = order.Uint64(b[2+8*j:]) ^ 0x8080808080808080
		}
	}
}

// readMXFP4 writes the scale 2^(e-127) as bf16; the least is not a normal number there.
func readMXFP4(to *line, row []byte, unit int) {
	for i, b := 0, blocks(row, unit, 17); len(b) > 0; i, b = i+1, b[17:] {
		if to.scales[i] = uint16(b[0]) << 7; b[0] == 0 {
			to.scales[i] = 1 << 6
		}
		to.four[i] = sixteen(b[1:])
	}
}

// fold makes 16 bytes of 32 that have a code each, up bits up.
func fold(b []byte, up int) (w [2]uint64) {
	low, high := sixteen(b), sixteen(b[16:])
	for j := range w {
		w[j] = low[j]>>up&lowHalves | high[j]>>up&lowHalves<<4
	}
	return w
}

// readQ4_K multiplies out the scales and minima of six bits; scales and middles are rounded to half precision, by at most one part in 2048.
func readQ4_K(to *line, row []byte, unit int) {
	const bytes = 144
	b := row[unit/2*bytes:][:bytes]
	d, floor, packed := quant.F16ToF32(order.Uint16(b)), quant.F16ToF32(order.Uint16(b[2:])), b[4:16]
	for i := range 4 {
		scale, minimum := packed[i]&63, packed[i+4]&63
		if unit%2 == 1 {
			scale, minimum = packed[i+8]&15|packed[i]>>6<<4, packed[i+8]>>4|packed[i+4]>>6<<4
		}
		s := d * float32(scale)
		to.scales[i], to.scales[4+i] = half(s), half(8*s-floor*float32(minimum))
		to.four[i] = fold(b[16+64*(unit%2)+i/2*32:], i%2*4)
	}
}

// readQ6_K multiplies scales out likewise.
func readQ6_K(to *line, row []byte, unit int) {
	const bytes = 210
	b, h := row[unit/2*bytes:][:bytes], unit%2
	d := quant.F16ToF32(order.Uint16(b[208:]))
	for i := range 8 {
		to.scales[i] = half(d * float32(int8(b[192+8*h+i])))
	}
	for i := range 4 {
		to.four[i] = fold(b[64*h+i%2*32:], i/2*4)
		for j := range 4 {
			to.two[i][j] = order.Uint64(b[128+32*h+8*j:]) >> (2 * i) & lowTwos
		}
	}
}

// half rounds to half precision; what is too large becomes the largest number.
func half(v float32) uint16 { return quant.F32ToF16(max(min(v, 65504), -65504)) }
