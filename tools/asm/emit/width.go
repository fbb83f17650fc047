package emit

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Width is a vector instruction set that one kernel generator writes for: 512-bit registers with the AVX-512
// encodings, or 256-bit registers with the AVX2 ones. Where the two name an instruction differently, the methods
// below choose.
type Width struct {
	*Asm
	Bytes int  // 64 or 32
	VNNI  bool // has a byte dot product with 32-bit sums
}

// Suffix is the suffix of kernels of this width: Z (AVX-512), V (AVX2 with AVX-VNNI) or Y (AVX2).
func (w Width) Suffix() string {
	switch {
	case w.AVX512():
		return "Z"
	case w.VNNI:
		return "V"
	}
	return "Y"
}

// AVX512 reports 512-bit registers.
func (w Width) AVX512() bool { return w.Bytes == 64 }

// Reg is vector register i of this width.
func (w Width) Reg(i int) reg.VecPhysical {
	if w.AVX512() {
		return zmm[i]
	}
	return ymm[i]
}

// Half is the register half as wide as Reg(i).
func (w Width) Half(i int) reg.VecPhysical {
	if w.AVX512() {
		return w.Reg(i).AsY().(reg.VecPhysical)
	}
	return w.Reg(i).AsX().(reg.VecPhysical)
}

// Quarter is the XMM register i: a quarter of a ZMM register, half of a YMM one.
func (w Width) Quarter(i int) reg.VecPhysical { return w.Reg(i).AsX().(reg.VecPhysical) }

// Move copies a register or memory of one vector.
func (w Width) Move(src, dst operand.Op) {
	if w.AVX512() {
		w.VMOVDQU64(src, dst)
	} else {
		w.VMOVDQU(src, dst)
	}
}

// And is dst = b & a; a may be memory.
func (w Width) And(a, b, dst operand.Op) {
	if w.AVX512() {
		w.VPANDD(a, b, dst)
	} else {
		w.VPAND(a, b, dst)
	}
}

// Or is dst = b | a; a may be memory.
func (w Width) Or(a, b, dst operand.Op) {
	if w.AVX512() {
		w.VPORD(a, b, dst)
	} else {
		w.VPOR(a, b, dst)
	}
}

// Xor is dst = b ^ a; a may be memory.
func (w Width) Xor(a, b, dst operand.Op) {
	if w.AVX512() {
		w.VPXORD(a, b, dst)
	} else {
		w.VPXOR(a, b, dst)
	}
}

// Zero clears a register.
func (w Width) Zero(r reg.VecPhysical) { w.Xor(r, r, r) }

// Shift moves 16-bit words of r left by n bits, or right by -n; bits that cross from byte to byte are the caller's to
// mask away.
func (w Width) Shift(n int, r reg.VecPhysical) {
	switch {
	case n > 0:
		w.VPSLLW(operand.U8(uint8(n)), r, r)
	case n < 0:
		w.VPSRLW(operand.U8(uint8(-n)), r, r)
	}
}

// ShiftFrom is dst = the words of m shifted like Shift; with AVX-512 only.
func (w Width) ShiftFrom(m operand.Mem, n int, dst reg.VecPhysical) {
	if n > 0 {
		w.VPSLLW(operand.U8(uint8(n)), m, dst)
	} else {
		w.VPSRLW(operand.U8(uint8(-n)), m, dst)
	}
}

// Dot is sums += unsigned bytes · signed bytes in groups of four; only for widths with VNNI.
func (w Width) Dot(signed, unsigned, sums reg.VecPhysical) {
	if w.AVX512() {
		w.VPDPBUSD(signed, unsigned, sums)
	} else {
		w.VPDPBUSDVex(signed, unsigned, sums)
	}
}

// FixedBytes is a read-only vector of this width that repeats b.
func (w Width) FixedBytes(name string, b byte) operand.Mem {
	m := w.Constant(name)
	for i := 0; i < w.Bytes; i += 8 {
		w.AddDatum(i, operand.U64(uint64(b)*0x0101010101010101))
	}
	return m
}

// FixedWords is a read-only vector of this width that repeats a 32-bit word.
func (w Width) FixedWords(name string, v uint32) operand.Mem {
	m := w.Constant(name)
	for i := 0; i < w.Bytes; i += 4 {
		w.AddDatum(i, operand.U32(v))
	}
	return m
}

var zmm = [32]reg.VecPhysical{
	reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7, reg.Z8, reg.Z9, reg.Z10, reg.Z11, reg.Z12, reg.Z13,
	reg.Z14, reg.Z15, reg.Z16, reg.Z17, reg.Z18, reg.Z19, reg.Z20, reg.Z21, reg.Z22, reg.Z23, reg.Z24, reg.Z25, reg.Z26,
	reg.Z27, reg.Z28, reg.Z29, reg.Z30, reg.Z31,
}

var ymm = [16]reg.VecPhysical{
	reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5, reg.Y6, reg.Y7, reg.Y8, reg.Y9, reg.Y10, reg.Y11, reg.Y12, reg.Y13,
	reg.Y14, reg.Y15,
}
