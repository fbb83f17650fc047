package quant

// grouped takes a block of a format with a CodeGroup apart: whole numbers of eight bits with a scale for each 16 (those of a CodeGroup of 32 come in
// pairs), x = scale·code. Kernels that have no layout of their own for such a format take it from there.
type grouped func(codes []int8, scales []float32, block []byte)

// codeGroup is how many numbers GroupedCodes gives a scale for.
const codeGroup = 16

// decode is the format's decoder.
func (g grouped) decode(f Format) func(dst []float32, src []byte) {
	return func(dst []float32, src []byte) {
		n, size := f.Block(), f.BlockBytes()
		var codes [superBlock]int8
		var scales [superBlock / codeGroup]float32
		for len(src) >= size {
			g(codes[:n], scales[:n/codeGroup], src[:size])
			for i, c := range codes[:n] {
				dst[i] = scales[i/codeGroup] * float32(c)
			}
			src, dst = src[size:], dst[n:]
		}
	}
}

// GroupedCodes writes the codes of one block of a format with a CodeGroup, Block() of them, and their scales, one for 16: x = scale·code, exactly.
func GroupedCodes(f Format, codes []int8, scales []float32, block []byte) {
	descriptors[f].codes(codes, scales, block)
}
