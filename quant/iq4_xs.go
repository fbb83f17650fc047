package quant

import "math"

// IQ4_XS: 256 numbers in 136 bytes, eight sub-blocks of 32 with the codebook of IQ4_NL.
//
//	d         f16      x = d·(scale−32)·codebook[q]
//	scales_h  u16      high two bits of the eight six-bit scales, those of sub-block i in bits 2i and 2i+1
//	scales_l  [4]u8    their low four bits: of sub-block i in byte i/2, in the low half of even ones
//	qs        [128]u8  sixteen bytes a sub-block: number j in the low half of byte j, number j+16 in the high half
const IQ4_XS Format = 19

const iq4_xsBytes = 136

var _ = register(IQ4_XS, Descriptor{
	Name: "IQ4_XS", Block: superBlock, BlockBytes: iq4_xsBytes,
	GGUF: &GGUFType{Tensor: 23, File: 30}, Fallback: IQ4_NL,
	bound:  bound{0.24, 0x1p-20, 32 * 113 * f16Max}, // 0.182
	decode: decodeIQ4_XS, encode: encodeIQ4_XS,
})

func decodeIQ4_XS(dst []float32, src []byte) {
	for len(src) >= iq4_xsBytes {
		b, out := (*[iq4_xsBytes]byte)(src), (*[superBlock]float32)(dst)
		d, high := f16at(b[:]), int(order.Uint16(b[2:]))
		for i := range 8 {
			scale := int(b[4+i/2]>>(i%2*4)&15) | high>>(2*i)&3<<4
			decodeCodebook((*[32]float32)(out[32*i:]), (*[16]byte)(b[8+16*i:]), d*float32(scale-32), &iq4_nlCodebook)
		}
		src, dst = src[iq4_xsBytes:], dst[superBlock:]
	}
}

// iq4_xsFit is a super-block before its scales and codes are rounded.
type iq4_xsFit struct {
	x, w  [8][32]float64 // the numbers, and what an error in each counts
	scale [8]float64     // of the sub-blocks
}

// iq4_xsBlock is a super-block before packing.
type iq4_xsBlock struct {
	d      uint16 // f16
	scales [8]int // -32 … 31
	codes  [superBlock]byte
}

// encodeIQ4_XS fits each sub-block alone, as encodeIQ4_NL does, and then goes on as symmetricGrid.encode does.
func encodeIQ4_XS(dst []byte, src []float32) {
	for len(src) >= superBlock {
		var fit iq4_xsFit
		largest := 0.0
		for i := range fit.scale {
			for j, v := range src[32*i:][:32] {
				fit.x[i][j] = float64(v)
			}
			errorWeights(fit.w[i][:], fit.x[i][:], nil)
			fit.scale[i] = fitCodebook(&fit.x[i], &fit.w[i])
			if math.Abs(fit.scale[i]) > math.Abs(largest) {
				largest = fit.scale[i]
			}
		}
		best := iq4_xsBlock{d: f16Scale(-largest / 32)}
		loss := best.quantise(&fit, false)
		again := best
		again.refit(&fit)
		if again.quantise(&fit, true) < loss {
			best = again
		}
		best.pack((*[iq4_xsBytes]byte)(dst))
		src, dst = src[superBlock:], dst[iq4_xsBytes:]
	}
}

// quantise fills in scales and codes for b's factor and returns the weighted squared error. With search it also tries
// each scale one down and one up.
func (b *iq4_xsBlock) quantise(fit *iq4_xsFit, search bool) (loss float64) {
	d := float64(F16ToF32(b.d))
	for i := range fit.scale {
		x, w := &fit.x[i], &fit.w[i]
		s := clampRound(fit.scale[i]*inverse(d), -32, 31)
		best := codebookLoss(x, w, d*s)
		if search {
			for _, s1 := range [2]float64{max(s-1, -32), min(s+1, 31)} {
				if l := codebookLoss(x, w, d*s1); l < best {
					best, s = l, s1
				}
			}
		}
		loss += best
		b.scales[i] = int(s)
		inv := inverse(d * s)
		for j, v := range x {
			b.codes[32*i+j] = iq4_nlNearest(float64(v * inv))
		}
	}
	return loss
}

// codebookLoss is the weighted squared error of a sub-block with a given scale.
func codebookLoss(x, w *[32]float64, scale float64) (loss float64) {
	inv := inverse(scale)
	for i, v := range x {
		e := float64(scale*float64(iq4_nlCodebook[iq4_nlNearest(float64(v*inv))])) - v
		loss += float64(w[i] * float64(e*e))
	}
	return loss
}

// refit chooses d anew to serve b's scales and codes: least squares of x ≈ d·a with a = scale·codebook[q].
func (b *iq4_xsBlock) refit(fit *iq4_xsFit) {
	var aa, ax float64
	for i := range fit.scale {
		for j, v := range fit.x[i] {
			a := float64(b.scales[i]) * float64(iq4_nlCodebook[b.codes[32*i+j]])
			aa += float64(fit.w[i][j] * float64(a*a))
			ax += float64(fit.w[i][j] * float64(a*v))
		}
	}
	if aa > 0 {
		b.d = f16Scale(ax / aa)
	}
}

// pack writes the block.
func (b *iq4_xsBlock) pack(dst *[iq4_xsBytes]byte) {
	clear(dst[:8])
	order.PutUint16(dst[:], b.d)
	high := uint16(0)
	for i, s := range b.scales {
		s += 32
		dst[4+i/2] |= byte(s&15) << (i % 2 * 4)
		high |= uint16(s>>4) << (2 * i)
		codes := (*[32]byte)(b.codes[32*i:])
		for j := range 16 {
			dst[8+16*i+j] = codes[j] | codes[j+16]<<4
		}
	}
	order.PutUint16(dst[2:], high)
}
