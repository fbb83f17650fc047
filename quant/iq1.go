package quant

// IQ1_S and IQ1_M: 256 numbers, of which groups of eight are points of a grid of −1, 0 and 1, moved by an eighth up or down. (Source:
// ggml-common.h.)
//
//	IQ1_S, 50 bytes: d f16; qs [32]u8, low bits of indices; qh [8]u16, for 32 numbers each: three high bits of four indices, a scale of three
//	                 bits, and 1 for down
//	IQ1_M, 56 bytes: qs [32]u8 likewise; qh [16]u8, three high bits of an index and 1 for down, twice; scales [4]u16, four times three bits for
//	                 16 numbers each; their four high nibbles are d, an f16
//
// x = d·(1 + 2·scale) · (point ± 1/8). As codes numbers are eight times as large.
const (
	IQ1_S Format = 32
	IQ1_M Format = 33
)

var _ = registerGrouped(IQ1_S, gridIQ1_S.described(Descriptor{Name: "IQ1_S", BlockBytes: 50, CodeGroup: 32, GGUF: &GGUFType{Tensor: 19, File: 24}, Fallback: IQ4_NL}), codesIQ1_S, nil)

var _ = registerGrouped(IQ1_M, gridIQ1_M.described(Descriptor{Name: "IQ1_M", BlockBytes: 56, GGUF: &GGUFType{Tensor: 29, File: 31}, Fallback: IQ4_NL}), codesIQ1_M, nil)

// putMoved writes a point, moved down or up.
func putMoved(dst []int8, point *[8]int8, down bool) {
	by := int8(1)
	if down {
		by = -1
	}
	for j, v := range point {
		dst[j] = 8*v + by
	}
}

func codesIQ1_S(codes []int8, scales []float32, b []byte) {
	d, grid := f16at(b), iq1Grid()
	for i := range 8 {
		high := int(order.Uint16(b[34+2*i:]))
		scales[2*i] = float32(d*float32(2*(high>>12&7)+1)) / 8
		scales[2*i+1] = scales[2*i]
		for l := range 4 {
			at := int(b[2+4*i+l]) | high>>(3*l)&7<<8
			putMoved(codes[32*i+8*l:], &grid[at], high&0x8000 != 0)
		}
	}
}

func codesIQ1_M(codes []int8, scales []float32, b []byte) {
	var half uint16
	for i := range 4 {
		half |= order.Uint16(b[48+2*i:]) >> 12 << (4 * i)
	}
	d, grid := F16ToF32(half), iq1Grid()
	for i := range 16 {
		scale := int(order.Uint16(b[48+i/4*2:])) >> (3 * (i % 4)) & 7
		scales[i] = float32(d*float32(2*scale+1)) / 8
	}
	for i := range 32 {
		high := int(b[32+i/2]) >> (i % 2 * 4)
		putMoved(codes[8*i:], &grid[int(b[i])|high&7<<8], high&8 != 0)
	}
}
