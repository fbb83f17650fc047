package gemm

import "github.com/ridge-llm/ridge/quant"

// packing is how one number format is packed. A code c of the layout, as the unsigned byte that kernels see, stands for
// scale·mul·(c−128), plus minimum + scale·off where the format has minima: that is the format's own definition, with
// its codes moved to the top of the byte. The scales of a panel's block are rows of f16 and then rows of bytes, each [NR].
type packing struct {
	layout   codeLayout
	scale    scaleLayout
	mul, off float32
	f16s     int // f16 scales in a block of the format: a scale, and a scale of minima or a minimum
	f16sAt   int // their offset in the format's block, in bytes
	bytes    int // bytes of sub-scales (or of the exponent) in a block of the format
	bytesAt  int
	size     int // bytes of all scales of NR rows, for one block of the format
	mins     bool
	codes    bool       // see pack_codes.go; no steps
	steps    []packStep // how codes are packed
	// group is how many numbers share a scale in grouped matmuls, chosen so that requantizing adds little to the error of the format.
	// Q8_0, as exact as bytes can be, keeps its own scales, and the bits of its results: it gains from the tiled layout of grouped activations.
	group int
}

// packings are the number formats that this package has kernels for, beside plain floats; the rest of it knows no format by name.
var packings = withExpanded(map[quant.Format]packing{
	quant.Q8_0: {
		layout: layoutU8, scale: scaleF16, mul: 1, size: 64, group: 32,
		f16s: 1, f16sAt: 0,
		steps: []packStep{{opInt8, 2, 0, 0, 0}, {opInt8, 18, 0, 0, 4}},
	},
	quant.Q4_0: {
		layout: layoutU4, scale: scaleF16, mul: 1. / 16, size: 64, group: 128,
		f16s: 1, f16sAt: 0,
		steps: []packStep{{opWords, 2, 0, 0, 0}},
	},
	quant.Q4_1: {
		layout: layoutU4, scale: scaleF16Min, mul: 1. / 16, off: 8, mins: true, size: 128, group: 128,
		f16s: 2, f16sAt: 0,
		steps: []packStep{{opWords, 4, 0, 0, 0}},
	},
	quant.UINT4: {
		layout: layoutU4, scale: scaleF16Zero, mul: 1. / 16, off: 8, mins: true, size: 128, group: 128,
		f16s: 2, f16sAt: 0,
		steps: []packStep{{opWords, 4, 0, 0, 0}},
	},
	quant.Q5_0: {
		layout: layoutU5, scale: scaleF16, mul: 1. / 8, size: 64, group: 64,
		f16s: 1, f16sAt: 0,
		steps: []packStep{{opWords, 6, 0, 0, 0}, {opMask, 2, 0, 0, 4}},
	},
	quant.Q5_1: {
		layout: layoutU5, scale: scaleF16Min, mul: 1. / 8, off: 16, mins: true, size: 128, group: 64,
		f16s: 2, f16sAt: 0,
		steps: []packStep{{opWords, 8, 0, 0, 0}, {opMask, 4, 0, 0, 4}},
	},
	quant.Q2_K: {
		layout: layoutU2, scale: scaleK2, mul: 1. / 64, off: 2, mins: true, size: 128 + 16*32, group: 128,
		f16s: 2, f16sAt: 80, bytes: 16, bytesAt: 0,
		steps: []packStep{{op2Bit, 16, 0, 1, 0}, {op2Bit, 48, 4, 1, 0}},
	},
	quant.Q3_K: {
		layout: layoutU3, scale: scaleK3, mul: 1. / 32, size: 64 + 12*32, group: 128,
		f16s: 1, f16sAt: 108, bytes: 12, bytesAt: 96,
		steps: []packStep{{op2Bit, 32, 0, 1, 0}, {op2Bit, 64, 4, 1, 0}, {op1Bit, 0, 0, 1, 2}},
	},
	quant.Q4_K: {
		layout: layoutU4, scale: scaleK4, mul: 1. / 16, off: 8, mins: true, size: 128 + 12*32, group: 128,
		f16s: 2, f16sAt: 0, bytes: 12, bytesAt: 4,
		steps: []packStep{{opNibbles, 16, 0, 1, 0}, {opNibbles, 48, 2, 1, 0}, {opNibbles, 80, 4, 1, 0}, {opNibbles, 112, 6, 1, 0}},
	},
	quant.Q5_K: {
		layout: layoutU5, scale: scaleK4, mul: 1. / 8, off: 16, mins: true, size: 128 + 12*32, group: 64,
		f16s: 2, f16sAt: 0, bytes: 12, bytesAt: 4,
		steps: []packStep{{opNibbles, 48, 0, 1, 0}, {opNibbles, 80, 2, 1, 0}, {opNibbles, 112, 4, 1, 0}, {opNibbles, 144, 6, 1, 0}, {op1Bit, 16, 0, 1, 4}},
	},
	quant.Q6_K: {
		layout: layoutU6, scale: scaleK6, mul: 1. / 4, size: 64 + 16*32, group: 64,
		f16s: 1, f16sAt: 208, bytes: 16, bytesAt: 192,
		steps: []packStep{{opNibbles, 0, 0, 2, 0}, {opNibbles, 32, 1, 2, 0}, {opNibbles, 64, 4, 2, 0}, {opNibbles, 96, 5, 2, 0}, {op2Bit, 128, 0, 1, 4}, {op2Bit, 160, 4, 1, 4}},
	},
	quant.IQ4_NL: {
		layout: layoutN4, scale: scaleF16, mul: 1, size: 64, group: 128,
		f16s: 1, f16sAt: 0,
		steps: []packStep{{opWords, 2, 0, 0, 0}},
	},
	quant.MXFP4: {
		layout: layoutM4, scale: scaleE8, mul: 1. / 2, size: 32, group: 128,
		bytes: 1, bytesAt: 0,
		steps: []packStep{{opWords, 1, 0, 0, 0}},
	},
	quant.IQ4_XS: {
		layout: layoutN4, scale: scaleXS, mul: 1, size: 64 + 6*32, group: 128,
		f16s: 1, f16sAt: 0, bytes: 6, bytesAt: 2,
		steps: []packStep{{opWords, 8, 0, 0, 0}, {opWords, 24, 1, 0, 0}, {opWords, 40, 2, 0, 0}, {opWords, 56, 3, 0, 0}, {opWords, 72, 4, 0, 0}, {opWords, 88, 5, 0, 0}, {opWords, 104, 6, 0, 0}, {opWords, 120, 7, 0, 0}},
	},
})
