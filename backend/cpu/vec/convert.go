package vec

import "github.com/ridge-llm/ridge/quant"

// NarrowF16 converts to float16, rounding to nearest, ties to even.
func (o Ops) NarrowF16(dst []uint16, src []float32) {
	whole := len(src) / o.k.lanes
	if whole > 0 {
		_ = dst[len(src)-1]
		o.k.narrowF16(&dst[0], &src[0], whole)
	}
	for i := whole * o.k.lanes; i < len(src); i++ {
		dst[i] = quant.F32ToF16(src[i])
	}
}

// NarrowBF16 converts to bfloat16, rounding to nearest, ties to even.
func (o Ops) NarrowBF16(dst []uint16, src []float32) {
	whole := len(src) / o.k.lanes
	if whole > 0 {
		_ = dst[len(src)-1]
		o.k.narrowBF16(&dst[0], &src[0], whole)
	}
	for i := whole * o.k.lanes; i < len(src); i++ {
		dst[i] = quant.F32ToBF16(src[i])
	}
}

// WidenF16 converts float16 to float32, exactly.
func (o Ops) WidenF16(dst []float32, src []uint16) {
	whole := len(src) / o.k.lanes
	if whole > 0 {
		_ = dst[len(src)-1]
		o.k.widenF16(&dst[0], &src[0], whole)
	}
	for i := whole * o.k.lanes; i < len(src); i++ {
		dst[i] = quant.F16ToF32(src[i])
	}
}

// WidenBF16 converts bfloat16 to float32, exactly.
func (o Ops) WidenBF16(dst []float32, src []uint16) {
	whole := len(src) / o.k.lanes
	if whole > 0 {
		_ = dst[len(src)-1]
		o.k.widenBF16(&dst[0], &src[0], whole)
	}
	for i := whole * o.k.lanes; i < len(src); i++ {
		dst[i] = quant.BF16ToF32(src[i])
	}
}
