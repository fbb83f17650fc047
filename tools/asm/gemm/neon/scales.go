package neon

import "github.com/ridge-llm/ridge/tools/asm/arm"

// scales writes the kernels that expand packed scales of 32 rows to float32, [block][32] or, where scales stand for
// 16 weights, [block][2][32]. Super-blocks keep their half-float scales first, then one row of 32 bytes for each byte
// of the row's sub-scales. Bytes are worked on for 16 rows at a time, and become floats by putting them below the bits
// of 2²³, which is then subtracted.
func scales(a *arm.Asm) {
	s := scaler{Asm: a}
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

type scaler struct {
	*arm.Asm
	mins bool // the function makes minima too
}

// General registers: of the block, and of the current 16 rows.
const (
	scaleDst arm.R = iota
	scaleMins
	scaleSrc
	scaleCount
	rowsDst
	rowsMins
	rowsHalves
	rowsBytes
	rowsLeft
)

// Vector registers; the first ones are working space.
const (
	codeA   arm.V = 8  // bytes of 16 rows: sub-scales
	codeB   arm.V = 9  // and sub-minima
	wordsA  arm.V = 10 // the same as 16-bit words, two registers each
	wordsB  arm.V = 12
	rowD    arm.V = 14 // the rows' scales times mul, four registers
	rowOff  arm.V = 18 // likewise times off
	rowMin  arm.V = 22 // the rows' scales of minima
	upper   arm.V = 26 // the upper half of 2²³, or zero
	biasA   arm.V = 27 // what to subtract
	biasB   arm.V = 28
	scratch arm.V = 29
)

// The arguments mul and off are in registers that hold nothing else.
const (
	scaleMul arm.V = 6
	scaleOff arm.V = 7
)

// function starts a kernel over n blocks or super-blocks.
func (s *scaler) function(name, doc string, mins bool) {
	name += "Q"
	s.Func(name, "func(dst, mins *float32, src *byte, n int, ahead uintptr, mul, off float32)", name+" "+doc)
	s.mins = mins
	s.Arg("dst", scaleDst)
	s.Arg("src", scaleSrc)
	s.Arg("n", scaleCount)
	s.ArgFloat("mul", scaleMul)
	if mins {
		s.Arg("mins", scaleMins)
		s.ArgFloat("off", scaleOff)
	}
	s.Load(s.Words(0x4b004b00), upper)
	s.Load(s.Floats(1<<23), biasB)
	s.Label("loop")
}

// finish advances over what one iteration wrote and read.
func (s *scaler) finish(dst, src int) {
	s.Advance(scaleDst, dst)
	if s.mins {
		s.Advance(scaleMins, dst)
	}
	s.Advance(scaleSrc, src)
	s.Loop(scaleCount, "loop")
	s.Ret()
}

// eight calls do for each four of 32 rows whose half floats start at disp, with those as float32 in register 0.
func (s *scaler) eight(disp int, do func(v int)) {
	for v := range 8 {
		s.LoadD(scaleSrc, disp+8*v, 0)
		s.FromF16(0, 0)
		do(v)
	}
}

func (s *scaler) half() {
	s.function("scaleF16", "expands a half float per row and block; each is multiplied by mul.", false)
	s.eight(0, func(v int) {
		s.FMul(0, 0, scaleMul)
		s.StoreQ(0, scaleDst, 16*v)
	})
	s.finish(128, 64)
}

func (s *scaler) halfMin() {
	s.function("scaleF16Min", "expands a scale and a minimum per row and block: scale × mul, minimum + scale × off.", true)
	s.eight(0, func(v int) {
		s.LoadD(scaleSrc, 64+8*v, 1)
		s.FromF16(1, 1)
		s.FMla(1, 0, scaleOff)
		s.FMul(0, 0, scaleMul)
		s.StoreQ(0, scaleDst, 16*v)
		s.StoreQ(1, scaleMins, 16*v)
	})
	s.finish(128, 128)
}

func (s *scaler) halfZero() {
	s.function("scaleF16Zero", "expands a scale and a zero point per row and block: scale × mul, scale × (off − zero point).", true)
	s.eight(0, func(v int) {
		s.LoadD(scaleSrc, 64+8*v, 1)
		s.FromF16(1, 1)
		s.FSub(1, scaleOff, 1)
		s.FMul(1, 1, 0)
		s.FMul(0, 0, scaleMul)
		s.StoreQ(0, scaleDst, 16*v)
		s.StoreQ(1, scaleMins, 16*v)
	})
	s.finish(128, 128)
}

// e8m0 reads the byte as the exponent of a float32. That gives 0 for the byte 0, where OCP MX has 2^-127, and Inf for
// 255, where OCP MX has NaN: neither is the scale of a weight that matters.
func (s *scaler) e8m0() {
	s.function("scaleE8", "expands a power of two per row and block; each is multiplied by mul.", false)
	s.Zero(upper)
	s.sixteen(0, func() {
		s.bytes(0, codeA)
		s.words(codeA, wordsA)
		for q := range 4 {
			s.widen(wordsA, q, 0)
			s.Shift32(0, 0, 23)
			s.FMul(0, 0, scaleMul)
			s.StoreQ(0, rowsDst, 16*q)
		}
	})
	s.finish(128, 32)
}

// sixteen runs body twice, for 16 rows each, whose bytes come after halves half floats for each row.
func (s *scaler) sixteen(halves int, body func()) {
	s.Mov(scaleDst, rowsDst)
	if s.mins {
		s.Mov(scaleMins, rowsMins)
	}
	s.Mov(scaleSrc, rowsHalves)
	s.Add(64*halves, scaleSrc, rowsBytes)
	s.Set(2, rowsLeft)
	s.Label("rows")
	body()
	s.Advance(rowsDst, 64)
	if s.mins {
		s.Advance(rowsMins, 64)
	}
	s.Advance(rowsHalves, 32)
	s.Advance(rowsBytes, 16)
	s.Loop(rowsLeft, "rows")
}

// bytes loads byte row l of the current rows.
func (s *scaler) bytes(l int, v arm.V) { s.LoadQ(rowsBytes, 32*l, v) }

// words makes two registers of 16-bit words of the bytes of v.
func (s *scaler) words(v, to arm.V) {
	s.Unsigned8(to, v)
	s.Unsigned8High(to+1, v)
}

// widen makes words of four rows, with the upper half in place.
func (s *scaler) widen(words arm.V, q int, to arm.V) {
	if q%2 == 0 {
		s.Zip(2, to, words+arm.V(q/2), upper)
	} else {
		s.ZipHigh(2, to, words+arm.V(q/2), upper)
	}
}

// bits keeps width bits of r from position right on, and puts them at position left.
func (s *scaler) bits(from, r arm.V, right, left, width int) {
	s.Shift(r, from, left-right)
	s.Load(s.Bytes((1<<width-1)<<left), scratch)
	s.And(r, r, scratch)
}

// rowScales makes rowD, and rowOff and rowMin where there are minima.
func (s *scaler) rowScales() {
	for q := range arm.V(4) {
		s.LoadD(rowsHalves, 8*int(q), rowD+q)
		s.FromF16(rowD+q, rowD+q)
		if s.mins {
			s.FMul(rowOff+q, rowD+q, scaleOff)
			s.LoadD(rowsHalves, 64+8*int(q), rowMin+q)
			s.FromF16(rowMin+q, rowMin+q)
		}
		s.FMul(rowD+q, rowD+q, scaleMul)
	}
}

// subScale stores d × (sub-scale - bias) × mul of sub-scale row l, and with minima d × sub-scale × off - dmin × sub-minimum.
func (s *scaler) subScale(l int) {
	s.words(codeA, wordsA)
	if s.mins {
		s.words(codeB, wordsB)
	}
	for q := range 4 {
		v := arm.V(q)
		s.widen(wordsA, q, 0)
		s.FSub(0, 0, biasA)
		s.FMul(1, 0, rowD+v)
		s.StoreQ(1, rowsDst, 128*l+16*q)
		if !s.mins {
			continue
		}
		s.widen(wordsB, q, 2)
		s.FSub(2, 2, biasB)
		s.FMul(0, 0, rowOff+v)
		s.FMls(0, 2, rowMin+v)
		s.StoreQ(0, rowsMins, 128*l+16*q)
	}
}
