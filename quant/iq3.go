package quant

// IQ3_XXS and IQ3_S: 256 numbers, of which groups of four are points of a grid with signs. (Source: ggml-common.h.)
//
//	IQ3_XXS, 98 bytes:  d f16; qs [64]u8, indices of points; for each 32 numbers u32, four times seven signs (see IQ2_XXS) and a scale of four
//	                    bits above; x = d·(scale + 1/2)/2 · sign · point
//	IQ3_S,   110 bytes: d f16; qs [64]u8, low bits of indices; qh [8]u8, the ninth bit of eight each; signs [32]u8; scales [4]u8, of 32 numbers
//	                    each, low half first; x = d·(1 + 2·scale) · sign · point
const (
	IQ3_XXS Format = 30
	IQ3_S   Format = 31
)

var _ = registerGrouped(IQ3_XXS, Descriptor{Name: "IQ3_XXS", BlockBytes: 98, CodeGroup: 32, GGUF: &GGUFType{Tensor: 18, File: 23}, Fallback: IQ4_NL}, codesIQ3_XXS, &gridIQ3_XXS)

var _ = registerGrouped(IQ3_S, Descriptor{Name: "IQ3_S", BlockBytes: 110, CodeGroup: 32, GGUF: &GGUFType{Tensor: 21, File: 26}, Fallback: IQ4_NL}, codesIQ3_S, &gridIQ3_S)

func codesIQ3_XXS(codes []int8, scales []float32, b []byte) {
	d, grid := f16at(b), iq3xxsGrid()
	for i := range 8 {
		part, signs := b[2+8*i:], order.Uint32(b[66+4*i:])
		scales[2*i] = halfScale(d, signs>>28, 0.5)
		scales[2*i+1] = scales[2*i]
		for l := range 4 {
			s := evenSigns(signs >> (7 * l))
			putSigned(codes[32*i+8*l:], &grid[part[2*l]], 4, s)
			putSigned(codes[32*i+8*l+4:], &grid[part[2*l+1]], 4, s>>4)
		}
	}
}

func codesIQ3_S(codes []int8, scales []float32, b []byte) {
	d, grid := f16at(b), iq3sGrid()
	for i := range 8 {
		scales[2*i] = d * float32(1+2*int(b[106+i/2]>>(i%2*4)&15))
		scales[2*i+1] = scales[2*i]
	}
	for i := range 64 {
		at := int(b[2+i]) | int(b[66+i/8]>>(i%8)&1)<<8
		putSigned(codes[4*i:], &grid[at], 4, b[74+i/2]>>(i%2*4))
	}
}
