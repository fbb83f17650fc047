package emit

import (
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Bytes writes an instruction as its encoding. avo cannot see which registers it uses, which is harmless here because
// every kernel names its registers itself.
func (a *Asm) Bytes(code ...byte) {
	for _, b := range code {
		a.Instruction(&ir.Instruction{Opcode: "BYTE", Operands: []operand.Op{operand.U8(b)}})
	}
}

// id is a register's number in its file, 0 to 31.
func id(r reg.VecPhysical) byte { return byte(r.PhysicalIndex()) }

// not is 1 where the bit of v is 0: VEX and EVEX store register bits inverted.
func not(v, bit byte) byte { return ^v >> bit & 1 }

// VPDPBF16PS is dst += src1·src2 over pairs of bf16, sixteen float32 sums of 512-bit vectors (Intel SDM volume 2;
// EVEX.512.F3.0F38.W0 52 /r). The Go assembler of 1.26 and avo 0.6 do not have it.
func (a *Asm) VPDPBF16PS(src2, src1, dst reg.VecPhysical) {
	s2, s1, d := id(src2), id(src1), id(dst)
	a.Commentf("VDPBF16PS Z%d, Z%d, Z%d", s2, s1, d)
	a.Bytes(0x62,
		not(d, 3)<<7|not(s2, 4)<<6|not(s2, 3)<<5|not(d, 4)<<4|2,
		^s1&15<<3|1<<2|2,
		2<<5|not(s1, 4)<<3,
		0x52, 0xc0|d&7<<3|s2&7)
}

// VPDPBUSDVex is the 256-bit AVX-VNNI form of VPDPBUSD: dst += signed bytes of src2 · unsigned bytes of src1, in
// groups of four (VEX.256.66.0F38.W0 50 /r). The Go assembler knows only the AVX-512 encoding, which machines with
// AVX-VNNI but without AVX-512 refuse.
func (a *Asm) VPDPBUSDVex(src2, src1, dst reg.VecPhysical) {
	s2, s1, d := id(src2), id(src1), id(dst)
	a.Commentf("VPDPBUSD Y%d, Y%d, Y%d (VEX)", s2, s1, d)
	a.Bytes(0xc4,
		not(d, 3)<<7|1<<6|not(s2, 3)<<5|2,
		^s1&15<<3|1<<2|1,
		0x50, 0xc0|d&7<<3|s2&7)
}

// VCVTNEPS2BF16 rounds sixteen float32 to bf16 in the lower half of dst (EVEX.512.F3.0F38.W0 72 /r).
func (a *Asm) VCVTNEPS2BF16(src, dst reg.VecPhysical) {
	s, d := id(src), id(dst)
	a.Commentf("VCVTNEPS2BF16 Z%d, Y%d", s, d)
	a.Bytes(0x62,
		not(d, 3)<<7|not(s, 4)<<6|not(s, 3)<<5|not(d, 4)<<4|2,
		15<<3|1<<2|2,
		2<<5|1<<3,
		0x72, 0xc0|d&7<<3|s&7)
}

// PREFETCHW prefetches the cache line at base + disp, -128 to 127 bytes, for writing (0F 0D /1). The Go assembler does
// not know it.
func (a *Asm) PREFETCHW(base reg.GPPhysical, disp int) {
	b := byte(base.PhysicalIndex())
	a.Commentf("PREFETCHW %d(%s)", disp, base.Asm())
	if b >= 8 {
		a.Bytes(0x41)
	}
	if b&7 == 4 { // of SP and R12, which need another byte
		panic("PREFETCHW from " + base.Asm())
	}
	a.Bytes(0x0f, 0x0d, 0x48|b&7, byte(int8(disp)))
}
