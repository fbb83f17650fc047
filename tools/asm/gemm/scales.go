package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ridge-llm/ridge/tools/asm/emit"
)

// scales writes the kernels that expand packed scales of 32 rows to float32, [block][32] or, where scales stand for
// 16 weights, [block][2][32]. Super-blocks keep their half-float scales first, then one row of 32 bytes for each byte
// of the row's sub-scales.
func scales(w emit.Width) func(*emit.Asm) {
	return func(a *emit.Asm) {
		w.Asm = a
		s := scaler{Width: w, vectors: 32 * 4 / w.Bytes, mask: map[int]Mem{}}
		for _, m := range []int{0x3f, 0x0f, 0x30} {
			s.mask[m] = w.FixedWords(fmt.Sprintf("scale%02x%s", m, w.Suffix()), uint32(m))
		}
		s.half()
		s.halfMin()
		s.halfZero()
		s.e8m0()
		s.k4()
		s.k6()
		s.k3()
		s.k2()
		s.xs()
	}
}

type scaler struct {
	emit.Width
	vectors int // that hold 32 float32
	src     GPPhysical
	dst     GPPhysical
	mins    GPPhysical
	mask    map[int]Mem
}

// Registers with a fixed role; the first ones are working space.
const (
	scaleD   = 8  // the row's scale, times mul
	scaleMin = 9  // the row's scale of minima
	scaleMul = 10 // broadcast arguments
	scaleOff = 11
)

// start begins a function over n blocks or super-blocks and leaves the labels and the counter to loop.
func (s *scaler) start(name, doc string, mins, mul bool) {
	signature := "func(dst *float32, "
	if mins {
		signature += "mins *float32, "
	}
	signature += "src *byte, n int, ahead uintptr"
	if mul {
		signature += ", mul float32"
	}
	if mins {
		signature += ", off float32"
	}
	s.Func(name+s.Suffix(), signature+")", name+s.Suffix()+" "+doc)
	s.dst, s.src = s.Arg("dst", RDI), s.Arg("src", RAX)
	s.Arg("n", RCX)
	s.Arg("ahead", R8)
	if mins {
		s.mins = s.Arg("mins", RSI)
	}
	if mul {
		s.VBROADCASTSS(s.param("mul"), s.Reg(scaleMul))
	}
	if mins {
		s.VBROADCASTSS(s.param("off"), s.Reg(scaleOff))
	}
	s.Label("loop")
}

func (s *scaler) param(name string) Mem {
	p, err := s.Param(name).Resolve()
	if err != nil {
		panic(err) // the name is not in the signature: a mistake in this file
	}
	return p.Addr
}

// aheadScales is how far ahead scales are prefetched, in bytes: four K-blocks of 512 k of half floats.
const aheadScales = 4096

// finish advances over what one iteration wrote and read. Meanwhile the next scales are prefetched, and a few cache lines of the next
// codes for each block, so that memory bandwidth is used while scales are computed.
func (s *scaler) finish(blocks, dst, src int) {
	for line := 0; line < src; line += 64 {
		s.PREFETCHT1(emit.At(s.src, aheadScales+line))
	}
	for line := range 2 * blocks {
		s.PREFETCHT1(emit.At(R8, 64*line))
	}
	s.Advance(R8, 128*blocks)
	s.Advance(s.dst, dst)
	if s.mins != nil {
		s.Advance(s.mins, dst)
	}
	s.Advance(s.src, src)
	s.SUBQ(Imm(1), RCX)
	s.JNZ(LabelRef("loop"))
	s.VZEROUPPER()
	s.RET()
	s.mins = nil
}

// out is where vector v of row l of 32 floats lies.
func (s *scaler) out(base GPPhysical, l, v int) Mem { return emit.At(base, 128*l+v*s.Bytes) }

// halves loads vector v of 32 half floats.
func (s *scaler) halves(disp, v int, dst VecPhysical) {
	s.VCVTPH2PS(emit.At(s.src, disp+v*s.Bytes/2), dst)
}

// bytes loads vector v of a row of 32 bytes as 32-bit integers.
func (s *scaler) bytes(disp, v int, dst VecPhysical) {
	s.VPMOVZXBD(emit.At(s.src, disp+v*s.Bytes/4), dst)
}

// bits keeps width bits of r from position right on, and puts them at position left.
func (s *scaler) bits(r VecPhysical, right, left, width int) {
	switch shift := left - right; {
	case shift > 0:
		s.VPSLLD(U8(uint8(shift)), r, r)
	case shift < 0:
		s.VPSRLD(U8(uint8(-shift)), r, r)
	}
	s.And(s.mask[(1<<width-1)<<left], r, r)
}

func (s *scaler) half() {
	s.start("scaleF16", "expands a half float per row and block; each is multiplied by mul.", false, true)
	for v := range s.vectors {
		s.halves(0, v, s.Reg(v))
		s.VMULPS(s.Reg(scaleMul), s.Reg(v), s.Reg(v))
		s.VMOVUPS(s.Reg(v), s.out(s.dst, 0, v))
	}
	s.finish(1, 128, 64)
}

func (s *scaler) halfMin() {
	s.start("scaleF16Min", "expands a scale and a minimum per row and block: scale × mul, minimum + scale × off.", true, true)
	for v := range s.vectors {
		d, m := s.Reg(0), s.Reg(1)
		s.halves(0, v, d)
		s.halves(64, v, m)
		s.VFMADD231PS(s.Reg(scaleOff), d, m)
		s.VMULPS(s.Reg(scaleMul), d, d)
		s.VMOVUPS(d, s.out(s.dst, 0, v))
		s.VMOVUPS(m, s.out(s.mins, 0, v))
	}
	s.finish(1, 128, 128)
}

func (s *scaler) halfZero() {
	s.start("scaleF16Zero", "expands a scale and a zero point per row and block: scale × mul, scale × (off − zero point).", true, true)
	for v := range s.vectors {
		d, z := s.Reg(0), s.Reg(1)
		s.halves(0, v, d)
		s.halves(64, v, z)
		s.VSUBPS(z, s.Reg(scaleOff), z)
		s.VMULPS(d, z, z)
		s.VMULPS(s.Reg(scaleMul), d, d)
		s.VMOVUPS(d, s.out(s.dst, 0, v))
		s.VMOVUPS(z, s.out(s.mins, 0, v))
	}
	s.finish(1, 128, 128)
}

// e8m0 reads the byte as the exponent of a float32. That gives 0 for the byte 0, where OCP MX has 2^-127, and Inf for
// 255, where OCP MX has NaN: neither is the scale of a weight that matters.
func (s *scaler) e8m0() {
	s.start("scaleE8", "expands a power of two per row and block; each is multiplied by mul.", false, true)
	for v := range s.vectors {
		e := s.Reg(v)
		s.bytes(0, v, e)
		s.VPSLLD(Imm(23), e, e)
		s.VMULPS(s.Reg(scaleMul), e, e)
		s.VMOVUPS(e, s.out(s.dst, 0, v))
	}
	s.finish(1, 128, 32)
}
