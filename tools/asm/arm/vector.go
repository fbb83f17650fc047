package arm

import (
	"fmt"
	"math/bits"
)

// word writes an instruction as its encoding, which the Arm Architecture Reference Manual (DDI 0487, C7) has for each.
func (a *Asm) word(code uint32, format string, args ...any) {
	a.Op("WORD $0x%08x // %s", code, fmt.Sprintf(format, args...))
}

// three is d = n ∘ m.
func (a *Asm) three(code uint32, name, shape string, d, n, m V) {
	a.word(code|uint32(m)<<16|uint32(n)<<5|uint32(d), "%s v%d.%s, v%d.%s, v%d.%s", name, d, shape, n, shape, m, shape)
}

// mixed is three with shapes of their own for the result and the operands.
func (a *Asm) mixed(code uint32, name, result, operands string, d, n, m V) {
	a.word(code|uint32(m)<<16|uint32(n)<<5|uint32(d), "%s v%d.%s, v%d.%s, v%d.%s", name, d, result, n, operands, m, operands)
}

// two is d = ∘ n.
func (a *Asm) two(code uint32, name, result, operand string, d, n V) {
	a.word(code|uint32(n)<<5|uint32(d), "%s v%d.%s, v%d.%s", name, d, result, n, operand)
}

// lane is d ∘ n times word i of m in every lane; result and operands are shapes, group is what a word of m holds.
func (a *Asm) lane(code uint32, name, result, operands, group string, d, n, m V, i int) {
	code |= uint32(i&1)<<21 | uint32(i>>1)<<11 | uint32(m)<<16 | uint32(n)<<5 | uint32(d)
	a.word(code, "%s v%d.%s, v%d.%s, v%d.%s[%d]", name, d, result, n, operands, m, group, i)
}

// Arithmetic on four float32.

func (a *Asm) FAdd(d, n, m V) { a.three(0x4e20d400, "fadd", "4s", d, n, m) }
func (a *Asm) FSub(d, n, m V) { a.three(0x4ea0d400, "fsub", "4s", d, n, m) }
func (a *Asm) FMul(d, n, m V) { a.three(0x6e20dc00, "fmul", "4s", d, n, m) }
func (a *Asm) FDiv(d, n, m V) { a.three(0x6e20fc00, "fdiv", "4s", d, n, m) }
func (a *Asm) FMax(d, n, m V) { a.three(0x4e20f400, "fmax", "4s", d, n, m) }
func (a *Asm) FMin(d, n, m V) { a.three(0x4ea0f400, "fmin", "4s", d, n, m) }

// FMla is d += n·m, FMls d -= n·m.
func (a *Asm) FMla(d, n, m V) { a.three(0x4e20cc00, "fmla", "4s", d, n, m) }
func (a *Asm) FMls(d, n, m V) { a.three(0x4ea0cc00, "fmls", "4s", d, n, m) }

// FMlaLane is d += n·m[i], FMulLane d = n·m[i].
func (a *Asm) FMlaLane(d, n, m V, i int) { a.lane(0x4f801000, "fmla", "4s", "4s", "s", d, n, m, i) }
func (a *Asm) FMulLane(d, n, m V, i int) { a.lane(0x4f809000, "fmul", "4s", "4s", "s", d, n, m, i) }

// FAddPairs adds adjacent lanes: first those of n, then those of m.
func (a *Asm) FAddPairs(d, n, m V) { a.three(0x6e20d400, "faddp", "4s", d, n, m) }
func (a *Asm) FAbs(d, n V)         { a.two(0x4ea0f800, "fabs", "4s", "4s", d, n) }
func (a *Asm) FNeg(d, n V)         { a.two(0x6ea0f800, "fneg", "4s", "4s", d, n) }

// FRound rounds to the nearest whole number, ties to even.
func (a *Asm) FRound(d, n V) { a.two(0x4e218800, "frintn", "4s", "4s", d, n) }

// FNegative is all ones in lanes below zero, and zeros elsewhere and for NaN.
func (a *Asm) FNegative(d, n V) {
	a.word(0x4ea0e800|uint32(n)<<5|uint32(d), "fcmlt v%d.4s, v%d.4s, #0.0", d, n)
}

// FEqual is all ones in lanes where n equals m, and zeros elsewhere and for NaN.
func (a *Asm) FEqual(d, n, m V) { a.three(0x4e20e400, "fcmeq", "4s", d, n, m) }

// FMaxAcross is the largest lane of n, in the lowest of d; the others become zero.
func (a *Asm) FMaxAcross(d, n V) {
	a.word(0x6e30f800|uint32(n)<<5|uint32(d), "fmaxv s%d, v%d.4s", d, n)
}

// KeepLowest keeps the lowest lane and clears the others.
func (a *Asm) KeepLowest(d, n V) { a.word(0x1e204000|uint32(n)<<5|uint32(d), "fmov s%d, s%d", d, n) }

// Conversions.

// ToInt rounds float32 to int32, ties to even.
func (a *Asm) ToInt(d, n V)   { a.two(0x4e21a800, "fcvtns", "4s", "4s", d, n) }
func (a *Asm) ToFloat(d, n V) { a.two(0x4e21d800, "scvtf", "4s", "4s", d, n) }

// FromF16 widens the low four half floats, FromF16High the high four.
func (a *Asm) FromF16(d, n V)     { a.two(0x0e217800, "fcvtl", "4s", "4h", d, n) }
func (a *Asm) FromF16High(d, n V) { a.two(0x4e217800, "fcvtl2", "4s", "8h", d, n) }

// ToF16 narrows to the low four half floats of d and clears the rest, ToF16High to the high ones.
func (a *Asm) ToF16(d, n V)     { a.two(0x0e216800, "fcvtn", "4h", "4s", d, n) }
func (a *Asm) ToF16High(d, n V) { a.two(0x4e216800, "fcvtn2", "8h", "4s", d, n) }

// FromBF16 shifts the low four halfwords to the top of words, FromBF16High the high four.
func (a *Asm) FromBF16(d, n V) {
	a.word(0x2e613800|uint32(n)<<5|uint32(d), "shll v%d.4s, v%d.4h, #16", d, n)
}
func (a *Asm) FromBF16High(d, n V) {
	a.word(0x6e613800|uint32(n)<<5|uint32(d), "shll2 v%d.4s, v%d.8h, #16", d, n)
}

// ToBF16 rounds to the low four bf16 of d, ties to even, ToBF16High to the high ones; BF16 instructions.
func (a *Asm) ToBF16(d, n V)     { a.two(0x0ea16800, "bfcvtn", "4h", "4s", d, n) }
func (a *Asm) ToBF16High(d, n V) { a.two(0x4ea16800, "bfcvtn2", "8h", "4s", d, n) }

// Words8 sign-extends the low eight bytes to 16 bits, Words8High the high ones; Words16 the low four 16-bit words to 32.
func (a *Asm) Words8(d, n V)      { a.two(0x0f08a400, "sxtl", "8h", "8b", d, n) }
func (a *Asm) Words8High(d, n V)  { a.two(0x4f08a400, "sxtl2", "8h", "16b", d, n) }
func (a *Asm) Words16(d, n V)     { a.two(0x0f10a400, "sxtl", "4s", "4h", d, n) }
func (a *Asm) Words16High(d, n V) { a.two(0x4f10a400, "sxtl2", "4s", "8h", d, n) }

// Unsigned8 extends the low eight bytes with zeros to 16 bits, Unsigned8High the high ones.
func (a *Asm) Unsigned8(d, n V)     { a.two(0x2f08a400, "uxtl", "8h", "8b", d, n) }
func (a *Asm) Unsigned8High(d, n V) { a.two(0x6f08a400, "uxtl2", "8h", "16b", d, n) }

// Narrow32 saturates words to 16 bits, in the low half of d or the high one, Narrow16 those to bytes.
func (a *Asm) Narrow32(d, n V)     { a.two(0x0e614800, "sqxtn", "4h", "4s", d, n) }
func (a *Asm) Narrow32High(d, n V) { a.two(0x4e614800, "sqxtn2", "8h", "4s", d, n) }
func (a *Asm) Narrow16(d, n V)     { a.two(0x0e214800, "sqxtn", "8b", "8h", d, n) }
func (a *Asm) Narrow16High(d, n V) { a.two(0x4e214800, "sqxtn2", "16b", "8h", d, n) }

// Lower16 takes the lower bytes of 16-bit words, RoundUpper16 the upper ones, rounded.
func (a *Asm) Lower16(d, n V) { a.two(0x0e212800, "xtn", "8b", "8h", d, n) }
func (a *Asm) RoundUpper16(d, n V) {
	a.word(0x0f088c00|uint32(n)<<5|uint32(d), "rshrn v%d.8b, v%d.8h, #8", d, n)
}

// TopHalves takes the upper 16 bits of every word, to the low half of d or the high one.
func (a *Asm) TopHalves(d, n V) {
	a.word(0x0f108400|uint32(n)<<5|uint32(d), "shrn v%d.4h, v%d.4s, #16", d, n)
}
func (a *Asm) TopHalvesHigh(d, n V) {
	a.word(0x4f108400|uint32(n)<<5|uint32(d), "shrn2 v%d.8h, v%d.4s, #16", d, n)
}

// Integers.

func (a *Asm) Add32(d, n, m V)  { a.three(0x4ea08400, "add", "4s", d, n, m) }
func (a *Asm) UMax32(d, n, m V) { a.three(0x6ea06400, "umax", "4s", d, n, m) }

// AddPairs32 adds adjacent lanes: first those of n, then those of m.
func (a *Asm) AddPairs32(d, n, m V) { a.three(0x4ea0bc00, "addp", "4s", d, n, m) }

// UMaxAcross is the largest word of n, in the lowest of d; the others become zero.
func (a *Asm) UMaxAcross(d, n V) {
	a.word(0x6eb0a800|uint32(n)<<5|uint32(d), "umaxv s%d, v%d.4s", d, n)
}

// SumBytes is the sum of sixteen signed bytes, in the lowest 16 bits of d.
func (a *Asm) SumBytes(d, n V) {
	a.word(0x4e303800|uint32(n)<<5|uint32(d), "saddlv h%d, v%d.16b", d, n)
}

// Mul8 is eight products of the low signed bytes of n and m, 16 bits each; Mla8 adds them; High takes the high bytes.
func (a *Asm) Mul8(d, n, m V)     { a.mixed(0x0e20c000, "smull", "8h", "8b", d, n, m) }
func (a *Asm) Mul8High(d, n, m V) { a.mixed(0x4e20c000, "smull2", "8h", "16b", d, n, m) }
func (a *Asm) Mla8(d, n, m V)     { a.mixed(0x0e208000, "smlal", "8h", "8b", d, n, m) }
func (a *Asm) Mla8High(d, n, m V) { a.mixed(0x4e208000, "smlal2", "8h", "16b", d, n, m) }

// Mla16 adds the four products of the low signed 16-bit words of n and m to the words of d; High takes the high ones.
func (a *Asm) Mla16(d, n, m V)     { a.mixed(0x0e608000, "smlal", "4s", "4h", d, n, m) }
func (a *Asm) Mla16High(d, n, m V) { a.mixed(0x4e608000, "smlal2", "4s", "8h", d, n, m) }

// SumPairs16 adds adjacent 16-bit words of n to the words of d.
func (a *Asm) SumPairs16(d, n V) { a.two(0x4e606800, "sadalp", "4s", "8h", d, n) }

// DotLane adds to word r of d the product of four signed bytes of n, those of word r, with word i of m; needs DotProd.
func (a *Asm) DotLane(d, n, m V, i int) { a.lane(0x4f80e000, "sdot", "4s", "16b", "4b", d, n, m, i) }

// MatMul8 adds to the 2 × 2 words of d the products of two rows of eight signed bytes in n and two in m; needs I8MM.
func (a *Asm) MatMul8(d, n, m V) { a.mixed(0x4e80a400, "smmla", "4s", "16b", d, n, m) }

// MatMulBF16 adds to the 2 × 2 float32 of d the products of two rows of four bf16 in n and two in m; needs BF16.
func (a *Asm) MatMulBF16(d, n, m V) { a.mixed(0x6e40ec00, "bfmmla", "4s", "8h", d, n, m) }

// Bits and places.

func (a *Asm) And(d, n, m V) { a.three(0x4e201c00, "and", "16b", d, n, m) }

// AndNot is d = n without the bits of m.
func (a *Asm) AndNot(d, n, m V) { a.three(0x4e601c00, "bic", "16b", d, n, m) }
func (a *Asm) Or(d, n, m V)     { a.three(0x4ea01c00, "orr", "16b", d, n, m) }
func (a *Asm) Xor(d, n, m V)    { a.three(0x6e201c00, "eor", "16b", d, n, m) }

// Choose takes the bits of n where d has ones, and those of m elsewhere; Insert puts those of n into d where m has ones.
func (a *Asm) Choose(d, n, m V) { a.three(0x6e601c00, "bsl", "16b", d, n, m) }
func (a *Asm) Insert(d, n, m V) { a.three(0x6ea01c00, "bit", "16b", d, n, m) }

// Copy is d = n.
func (a *Asm) Copy(d, n V) {
	a.word(0x4ea01c00|uint32(n)<<16|uint32(n)<<5|uint32(d), "mov v%d.16b, v%d.16b", d, n)
}

// Zero clears d.
func (a *Asm) Zero(d V) { a.word(0x4f000400|uint32(d), "movi v%d.4s, #0x0", d) }

// DupLane repeats word i of n.
func (a *Asm) DupLane(d, n V, i int) {
	a.word(0x4e040400|uint32(i)<<19|uint32(n)<<5|uint32(d), "dup v%d.4s, v%d.s[%d]", d, n, i)
}

// Shift moves every byte left by n bits, or right by -n, filling with zeros; it copies for 0.
func (a *Asm) Shift(d, n V, by int) { a.shift(8, "16b", d, n, by) }

// Shift32 does so for words.
func (a *Asm) Shift32(d, n V, by int) { a.shift(32, "4s", d, n, by) }

func (a *Asm) shift(width int, shape string, d, n V, by int) {
	switch {
	case by > 0:
		a.word(0x4f005400|uint32(width+by)<<16|uint32(n)<<5|uint32(d), "shl v%d.%s, v%d.%s, #%d", d, shape, n, shape, by)
	case by < 0:
		a.word(0x6f000400|uint32(2*width+by)<<16|uint32(n)<<5|uint32(d), "ushr v%d.%s, v%d.%s, #%d", d, shape, n, shape, -by)
	case d != n:
		a.Copy(d, n)
	}
}

// InsertLeft puts the bytes of n, moved left by 0 < by < 8 bits, into d, whose lower bits stay; InsertRight those moved
// right, and d's upper bits stay.
func (a *Asm) InsertLeft(d, n V, by int) {
	a.word(0x6f005400|uint32(8+by)<<16|uint32(n)<<5|uint32(d), "sli v%d.16b, v%d.16b, #%d", d, n, by)
}
func (a *Asm) InsertRight(d, n V, by int) {
	a.word(0x6f004400|uint32(16-by)<<16|uint32(n)<<5|uint32(d), "sri v%d.16b, v%d.16b, #%d", d, n, by)
}

// Lookup takes byte n[i] of the table, for every i; 0 where n[i] is more than 15.
func (a *Asm) Lookup(d, table, n V) {
	a.word(0x4e000000|uint32(n)<<16|uint32(table)<<5|uint32(d), "tbl v%d.16b, {v%d.16b}, v%d.16b", d, table, n)
}

// Zip takes halfwords (size 2), words (4) or pairs of words (8) of n and m alternately, from the low halves; ZipHigh from the high halves.
func (a *Asm) Zip(size int, d, n, m V) { a.permute(0x4e003800, "zip1", size, d, n, m) }
func (a *Asm) ZipHigh(size int, d, n, m V) {
	a.permute(0x4e007800, "zip2", size, d, n, m)
}

func (a *Asm) permute(code uint32, name string, size int, d, n, m V) {
	shape := map[int]string{2: "8h", 4: "4s", 8: "2d"}[size]
	a.three(code|uint32(bits.Len(uint(size))-1)<<22, name, shape, d, n, m)
}

// ToGeneral is r = the signed 16 bits of word i of v.
func (a *Asm) ToGeneral(r R, v V) {
	a.word(0x0e022c00|uint32(v)<<5|uint32(r), "smov w%d, v%d.h[0]", r, v)
}

// FromGeneral is the signed word r as a float32 in the lowest lane of v; the others become zero.
func (a *Asm) FromGeneral(v V, r R) {
	a.word(0x1e220000|uint32(r)<<5|uint32(v), "scvtf s%d, w%d", v, r)
}

// Shift16 shifts halfwords left by so many bits.
func (a *Asm) Shift16(d, n V, by int) { a.shift(16, "8h", d, n, by) }

// Mul32 is the low 32 bits of products of words.
func (a *Asm) Mul32(d, n, m V) { a.three(0x4ea09c00, "mul", "4s", d, n, m) }

// Equal8 is all ones in bytes that are equal, and zeros elsewhere.
func (a *Asm) Equal8(d, n, m V) { a.three(0x6e208c00, "cmeq", "16b", d, n, m) }

// Unsigned16 extends the low four 16-bit words with zeros to 32 bits, Unsigned16High the high ones.
func (a *Asm) Unsigned16(d, n V)     { a.two(0x2f10a400, "uxtl", "4s", "4h", d, n) }
func (a *Asm) Unsigned16High(d, n V) { a.two(0x6f10a400, "uxtl2", "4s", "8h", d, n) }

// LookupFour is Lookup in a table of 64 bytes, in table and the three registers after it.
func (a *Asm) LookupFour(d, table, n V) {
	a.word(0x4e006000|uint32(n)<<16|uint32(table)<<5|uint32(d), "tbl v%d.16b, {v%d.16b-v%d.16b}, v%d.16b", d, table, table+3, n)
}

// LoadRepeat16 loads 2 bytes into every halfword.
func (a *Asm) LoadRepeat16(base R, v V) {
	a.word(0x4d40c400|uint32(base)<<5|uint32(v), "ld1r {v%d.8h}, [x%d]", v, base)
}
