package main

import (
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// k4 is Q4_K and Q5_K: d, dmin, and twelve bytes that hold eight six-bit scales and eight six-bit minima.
func (s *scaler) k4() {
	const subs = 128 // after 32 d and 32 dmin
	s.start("scaleK4", "expands the scales and minima of Q4_K and Q5_K: scale × mul, scale × off - minimum.", true, true)
	for v := range s.vectors {
		s.halves(0, v, s.Reg(scaleD))
		s.halves(64, v, s.Reg(scaleMin))
		sc, m, high := s.Reg(0), s.Reg(1), s.Reg(2)
		for j := range 8 {
			if j < 4 {
				s.bytes(subs+32*j, v, sc)
				s.bits(sc, 0, 0, 6)
				s.bytes(subs+32*(j+4), v, m)
				s.bits(m, 0, 0, 6)
			} else {
				s.bytes(subs+32*(j+4), v, sc)
				s.VPSRLD(Imm(4), sc, m)
				s.bits(sc, 0, 0, 4)
				s.bytes(subs+32*(j-4), v, high)
				s.bits(high, 6, 4, 2)
				s.Or(high, sc, sc)
				s.bytes(subs+32*j, v, high)
				s.bits(high, 6, 4, 2)
				s.Or(high, m, m)
			}
			s.scaleAndMin(sc, m, j, v)
		}
	}
	s.finish(8, 8*128, subs+12*32)
}

// scaleAndMin stores d × sc × mul, and d × sc × off - dmin × m, as row l.
func (s *scaler) scaleAndMin(sc, m VecPhysical, l, v int) {
	s.VCVTDQ2PS(sc, sc)
	s.VCVTDQ2PS(m, m)
	s.VMULPS(s.Reg(scaleD), sc, sc)
	s.VMULPS(s.Reg(scaleMin), m, m)
	s.VFMSUB231PS(s.Reg(scaleOff), sc, m)
	s.VMULPS(s.Reg(scaleMul), sc, sc)
	s.VMOVUPS(sc, s.out(s.dst, l, v))
	s.VMOVUPS(m, s.out(s.mins, l, v))
}

// k6 is Q6_K: d and sixteen signed bytes.
func (s *scaler) k6() {
	s.start("scaleK6", "expands the scales of Q6_K, times mul.", false, true)
	for v := range s.vectors {
		s.halves(0, v, s.Reg(scaleD))
		s.VMULPS(s.Reg(scaleMul), s.Reg(scaleD), s.Reg(scaleD))
		for j := range 16 {
			sc := s.Reg(j % 4)
			s.VPMOVSXBD(Mem{Base: s.src, Disp: 64 + 32*j + v*s.Bytes/4}, sc)
			s.VCVTDQ2PS(sc, sc)
			s.VMULPS(s.Reg(scaleD), sc, sc)
			s.VMOVUPS(sc, s.out(s.dst, j, v))
		}
	}
	s.finish(8, 16*128, 64+16*32)
}

// k3 is Q3_K: d and twelve bytes that hold sixteen six-bit scales, less 32.
func (s *scaler) k3() {
	s.start("scaleK3", "expands the scales of Q3_K, times mul.", false, true)
	for v := range s.vectors {
		s.halves(0, v, s.Reg(scaleD))
		s.VMULPS(s.Reg(scaleMul), s.Reg(scaleD), s.Reg(scaleD))
		// d × (sc - 32) is d × sc - 32 d, both exact before the one rounding.
		s.VMULPS(s.Reg(scaleD), s.thirtyTwo(), s.Reg(scaleMin))
		for j := range 16 {
			sc, high := s.Reg(0), s.Reg(1)
			s.bytes(64+32*(j%8), v, sc)
			s.bits(sc, j/8*4, 0, 4)
			s.bytes(64+32*(8+j%4), v, high)
			s.bits(high, j/4*2, 4, 2)
			s.Or(high, sc, sc)
			s.VCVTDQ2PS(sc, sc)
			s.VFMSUB132PS(s.Reg(scaleD), s.Reg(scaleMin), sc)
			s.VMOVUPS(sc, s.out(s.dst, j, v))
		}
	}
	s.finish(8, 16*128, 64+12*32)
}

// xs is IQ4_XS: d and six bytes that hold eight six-bit scales, less 32.
func (s *scaler) xs() {
	s.start("scaleXS", "expands the scales of IQ4_XS, times mul.", false, true)
	for v := range s.vectors {
		s.halves(0, v, s.Reg(scaleD))
		s.VMULPS(s.Reg(scaleMul), s.Reg(scaleD), s.Reg(scaleD))
		s.VMULPS(s.Reg(scaleD), s.thirtyTwo(), s.Reg(scaleMin)) // as in k3
		for j := range 8 {
			sc, high := s.Reg(0), s.Reg(1)
			s.bytes(64+32*(2+j/2), v, sc)
			s.bits(sc, j%2*4, 0, 4)
			s.bytes(64+32*(j/4), v, high)
			s.bits(high, j%4*2, 4, 2)
			s.Or(high, sc, sc)
			s.VCVTDQ2PS(sc, sc)
			s.VFMSUB132PS(s.Reg(scaleD), s.Reg(scaleMin), sc)
			s.VMOVUPS(sc, s.out(s.dst, j, v))
		}
	}
	s.finish(8, 8*128, 64+6*32)
}

// thirtyTwo makes 32 in every float of working register 2.
func (s *scaler) thirtyTwo() VecPhysical {
	r := s.Reg(2)
	s.MOVL(U32(0x42000000), EDX)
	s.VMOVD(EDX, s.Quarter(2))
	s.VBROADCASTSS(s.Quarter(2), r)
	return r
}

// k2 is Q2_K: d, dmin, and sixteen bytes with a four-bit scale below a four-bit minimum.
func (s *scaler) k2() {
	s.start("scaleK2", "expands the scales and minima of Q2_K: scale × mul, scale × off - minimum.", true, true)
	for v := range s.vectors {
		s.halves(0, v, s.Reg(scaleD))
		s.halves(64, v, s.Reg(scaleMin))
		for j := range 16 {
			sc, m := s.Reg(0), s.Reg(1)
			s.bytes(128+32*j, v, sc)
			s.VPSRLD(Imm(4), sc, m)
			s.bits(sc, 0, 0, 4)
			s.scaleAndMin(sc, m, j, v)
		}
	}
	s.finish(8, 16*128, 128+16*32)
}
