package quant

// IQ2_XXS, IQ2_XS and IQ2_S: 256 numbers, of which groups of eight are points of a grid with signs. (Source: ggml-common.h.) Of the signs of a
// group seven bits are stored where they go by seven; the eighth makes the number of minus signs even.
//
//	IQ2_XXS, 66 bytes: d f16; for each 32 numbers [4]u8, indices of points, and u32, four times seven signs and a scale of four bits above
//	IQ2_XS,  74 bytes: d f16; qs [32]u16, an index of nine bits and seven signs above; scales [8]u8, of 16 numbers each, low half first
//	IQ2_S,   82 bytes: d f16; qs [32]u8, low bits of indices; signs [32]u8; qh [8]u8, two high bits of four indices each; scales as in IQ2_XS
//
// x = d·(scale + 1/2)/4 · sign · point.
const (
	IQ2_XXS Format = 27
	IQ2_XS  Format = 28
	IQ2_S   Format = 29
)

var _ = registerGrouped(IQ2_XXS, Descriptor{Name: "IQ2_XXS", BlockBytes: 66, CodeGroup: 32, GGUF: &GGUFType{Tensor: 16, File: 19}, Fallback: IQ4_NL}, codesIQ2_XXS, &gridIQ2_XXS)

var _ = registerGrouped(IQ2_XS, Descriptor{Name: "IQ2_XS", BlockBytes: 74, GGUF: &GGUFType{Tensor: 17, File: 20}, Fallback: IQ4_NL}, codesIQ2_XS, &gridIQ2_XS)

var _ = registerGrouped(IQ2_S, Descriptor{Name: "IQ2_S", BlockBytes: 82, GGUF: &GGUFType{Tensor: 22, File: 28}, Fallback: IQ4_NL}, codesIQ2_S, &gridIQ2_S)

// registerGrouped adds a format of 256 numbers a block, which can be written if its encoder is given a grid.
func registerGrouped(f Format, d Descriptor, codes grouped, grid *pointGrid) struct{} {
	if d.Block == 0 {
		d.Block = superBlock
	}
	if d.CodeGroup == 0 {
		d.CodeGroup = codeGroup
	}
	d.codes, d.decode = codes, codes.decode(f)
	if grid != nil {
		d.encode, d.weighted = grid.encoder(d.BlockBytes)
		d.bound = bound{grid.bound(), 0x1p-15, 100 * f16Max}
	}
	return register(f, d)
}

// putSigned writes n numbers of a point, those with a bit in signs negated.
func putSigned(dst []int8, point *[8]int8, n int, signs byte) {
	for j := range n {
		v := point[j]
		if signs>>j&1 != 0 {
			v = -v
		}
		dst[j] = v
	}
}

// evenSigns is seven signs and the eighth that makes their number even.
func evenSigns(seven uint32) byte {
	s := byte(seven & 127)
	p := s ^ s>>4
	p ^= p >> 2
	p ^= p >> 1
	return s | p<<7
}

// halfScale is d·(scale + 1/2)·factor, rounded as ggml does.
func halfScale(d float32, scale uint32, factor float32) float32 {
	return float32(d*(0.5+float32(scale))) * factor
}

func codesIQ2_XXS(codes []int8, scales []float32, b []byte) {
	d, grid := f16at(b), iq2xxsGrid()
	for i := range 8 {
		part, signs := b[2+8*i:], order.Uint32(b[6+8*i:])
		scales[2*i] = halfScale(d, signs>>28, 0.25)
		scales[2*i+1] = scales[2*i]
		for l := range 4 {
			putSigned(codes[32*i+8*l:], &grid[part[l]], 8, evenSigns(signs>>(7*l)))
		}
	}
}

func codesIQ2_XS(codes []int8, scales []float32, b []byte) {
	d, grid := f16at(b), iq2xsGrid()
	for i := range 32 {
		q := uint32(order.Uint16(b[2+2*i:]))
		putSigned(codes[8*i:], &grid[q&511], 8, evenSigns(q>>9))
	}
	pairScales(scales, d, b[66:])
}

// pairScales are scales of four bits, two to a byte.
func pairScales(scales []float32, d float32, b []byte) {
	for i := range scales {
		scales[i] = halfScale(d, uint32(b[i/2]>>(i%2*4)&15), 0.25)
	}
}

func codesIQ2_S(codes []int8, scales []float32, b []byte) {
	d, grid := f16at(b), iq2sGrid()
	for i := range 32 {
		at := int(b[2+i]) | int(b[66+i/4])<<(8-2*(i%4))&0x300
		putSigned(codes[8*i:], &grid[at], 8, b[34+i])
	}
	pairScales(scales, d, b[74:])
}
