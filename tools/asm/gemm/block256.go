package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ridge-llm/ridge/tools/asm/emit"
)

// block256 multiplies a block of 32 k of up to six rows of activations with 16 rows of weights, in two vectors of 256 bits, or one row with 32. Registers 12
// to 15 hold codes, activations and what is being computed; those below hold integer sums and, as far as there are any left, float sums, sums
// of 16 bits that are being widened, and masks. The others are in memory at R14.
type block256 struct {
	*codes
	rows    int // of activations
	vectors int // of weights: 2, or 4 for one row
	mins    bool
	low     *lowLayout // nil for bytes
	inPlace bool       // codes are as they are packed, not yet unpacked
	words   Mem        // the factor of low layouts, in 16-bit words
	nibbles Mem        // 15 in every byte
	act     [6]Mem
	floats  int // first register of the float sums, 0 if they are in memory
	wide    int // of the integer sums before the last widening, likewise
}

// newBlock256 is a block without its activations.
func newBlock256(w emit.Width, f layout, low *lowLayout, consts constants, rows int) block256 {
	b := block256{codes: &codes{Width: w, layout: f, magic: consts.magic, flip: consts.mask[0x80], ones: consts.ones}, rows: rows, vectors: 2, low: low}
	if low != nil {
		b.words = w.RepeatBits("factor"+low.name, low.factor<<16|low.factor)
	} else if !w.VNNI {
		b.words = w.RepeatBits("factorNibbles", 16<<16|16)
		b.nibbles = w.RepeatBits("nibbles", 0x0f0f0f0f)
	}
	return b
}

// floatBytes is the size of the float sums of a tile in memory; as many bytes of integer sums that are being widened lie behind.
const floatBytes = 4 * tileRows * 16

func (b *block256) subs() int {
	if b.sub16 {
		return 2
	}
	return 1
}

// int is the integer sum of vector v of a row.
func (b *block256) int(r, v int) VecPhysical { return b.Reg(b.vectors*r + v) }

// held is the float sum of a row, partial its integer sum before the last widening.
func (b *block256) held(r, v int) Op {
	if b.floats > 0 {
		return b.Reg(b.floats + b.vectors*r + v)
	}
	return emit.At(R14, 32*(2*r+v))
}

func (b *block256) partial(r, v int) Op {
	if b.wide > 0 {
		return b.Reg(b.wide + b.vectors*r + v)
	}
	return emit.At(R14, floatBytes+32*(2*r+v))
}

// q8 is byte disp of row r's Q8 block.
func (b *block256) q8(r, disp int) Mem { return b.act[r].Offset(disp) }

// bias is the offset of the integer sums' start in a Q8 block.
func (b *block256) bias(sub int) int {
	if b.sub16 {
		return q8Bias16 + 4*sub
	}
	return q8Bias
}

// load points R14 at the frame, where the sums need one, and sets the float sums to zero or to what out holds; it uses R13.
func (b *block256) load(frame Mem, out, ld GPPhysical) {
	if frame.Base != nil {
		b.LEAQ(frame, R14)
		b.ADDQ(Imm(31), R14)
		b.ANDQ(I8(-32), R14)
	}
	for v := range b.vectors {
		b.Zero(b.Reg(12 + v))
	}
	b.MOVQ(out, R13)
	for r := range b.rows {
		b.CMPB(b.Slot("fresh"), Imm(0))
		b.JNE(LabelRef(fmt.Sprint("fresh", r)))
		for v := range b.vectors {
			b.VMOVUPS(emit.At(R13, v*b.Bytes), b.Reg(12+v))
		}
		b.ADDQ(ld, R13)
		b.Label(fmt.Sprint("fresh", r))
		for v := range b.vectors {
			b.VMOVUPS(b.Reg(12+v), b.held(r, v))
		}
	}
}

// store copies the float sums to out, which it advances.
func (b *block256) store(out, ld GPPhysical) {
	for r := range b.rows {
		for v := range b.vectors {
			sum, near := b.held(r, v).(VecPhysical)
			if !near {
				sum = b.Reg(v)
				b.VMOVUPS(b.held(r, v), sum)
			}
			b.VMOVUPS(sum, emit.At(out, v*b.Bytes))
		}
		b.ADDQ(ld, out)
	}
}

// products adds the scaled products of a block to the float sums. each is called before every group of four k.
func (b *block256) products(weights, scale GPPhysical, each func(j int)) {
	groups := 8 / b.subs()
	for sub := range b.subs() {
		switch {
		case b.VNNI:
			b.dots(weights, sub, groups)
		case b.low == nil && b.rows == 1:
			b.signed(weights, sub, groups, each)
		case b.rows == 1:
			b.pairsOfRow(weights, sub, groups, each)
		case b.low == nil:
			b.halves(weights, scale, sub, groups, each)
			continue
		default:
			b.pairs(weights, sub, groups, each)
		}
		for v := range b.vectors {
			b.scaled(scale, sub, v, func(r int) VecPhysical { return b.int(r, v) })
		}
	}
}

// dots leaves the integer sums, as floats plus 1.5·2²³, by VPDPBUSD.
func (b *block256) dots(weights GPPhysical, sub, groups int) {
	for r := range b.rows {
		for v := range 2 {
			b.VPBROADCASTD(b.q8(r, b.bias(sub)), b.int(r, v))
		}
	}
	for j := sub * groups; j < (sub+1)*groups; j++ {
		for v := range 2 {
			b.Move(emit.At(weights, 128*j+32*v), b.Reg(12+v))
		}
		for r := range b.rows {
			b.VPBROADCASTD(b.q8(r, 4*j), Y14)
			for v := range 2 {
				b.Dot(Y14, b.Reg(12+v), b.int(r, v))
			}
		}
	}
}

// groupBytes is how far a group of unpacked codes is from the next: those of low layouts are of the rows of one call.
func (b *block256) groupBytes() int {
	if b.low != nil {
		return halfGroup
	}
	return 128
}

// code puts the bytes of group j of vector v in dst: low codes, or bytes with an offset of 128.
func (b *block256) code(weights GPPhysical, j, v int, dst, tmp VecPhysical) {
	switch {
	case b.inPlace:
		b.group(b.codes, j, emit.At(weights, 32*v), dst, tmp)
	default:
		b.Move(emit.At(weights, b.groupBytes()*j+32*v), dst)
	}
}

// signed leaves the sums of bytes of one row, with the weights' signs moved to the activations: the product of bytes saturates at 16 bits,
// unless the unsigned side is at most 128.
func (b *block256) signed(weights GPPhysical, sub, groups int, each func(j int)) {
	for v := range b.vectors {
		b.Move(b.magic, b.int(0, v))
	}
	for j := sub * groups; j < (sub+1)*groups; j++ {
		each(j)
		b.VPBROADCASTD(b.q8(0, 4*j), Y15)
		for v := range b.vectors {
			b.code(weights, j, v, Y12, Y13)
			b.Xor(b.flip, Y12, Y12)
			b.VPABSB(Y12, Y13)
			b.VPSIGNB(Y12, Y15, Y14)
			b.VPMADDUBSW(Y14, Y13, Y14)
			b.VPMADDWD(b.ones, Y14, Y14)
			b.VPADDD(Y14, b.int(0, v), b.int(0, v))
		}
	}
}

// halves adds the scaled products of bytes to the float sums, one vector after the other: a byte is two codes of four bits, whose products
// are added in 16 bits, the lower half's in the second of a row's registers. That is two multiplications for 32 products, where moving
// signs takes three of the same ports.
func (b *block256) halves(weights, scale GPPhysical, sub, groups int, each func(j int)) {
	for v := range 2 {
		for g := range groups {
			j := sub*groups + g
			if v == 0 {
				each(j)
			}
			b.code(weights, j, v, Y12, Y15)
			b.And(b.nibbles, Y12, Y13)
			b.Shift(-4, Y12)
			b.And(b.nibbles, Y12, Y12)
			for r := range b.rows {
				b.VPBROADCASTD(b.q8(r, 4*j), Y14)
				b.product(Y14, Y12, Y15, b.int(r, 0), g == 0)
				b.product(Y14, Y13, Y14, b.int(r, 1), g == 0)
			}
		}
		for r := range b.rows {
			b.VPBROADCASTD(b.q8(r, b.bias(sub)), Y14)
			b.VPMADDWD(b.words, b.int(r, 0), b.int(r, 0))
			b.VPMADDWD(b.ones, b.int(r, 1), b.int(r, 1))
			b.VPADDD(Y14, b.int(r, 0), b.int(r, 0))
			b.VPADDD(b.int(r, 1), b.int(r, 0), b.int(r, 0))
		}
		b.scaled(scale, sub, v, func(r int) VecPhysical { return b.int(r, 0) })
	}
}

// product adds products of bytes, in pairs, to a sum of 16 bits, or sets it to them; tmp, which may be act, is overwritten.
func (b *block256) product(act, code, tmp, sum VecPhysical, first bool) {
	if first {
		b.VPMADDUBSW(act, code, sum)
		return
	}
	b.VPMADDUBSW(act, code, tmp)
	b.VPADDW(tmp, sum, sum)
}

// pairs leaves the sums of a low layout, which are added in 16 bits as far as they fit.
func (b *block256) pairs(weights GPPhysical, sub, groups int, each func(j int)) {
	for g := range groups {
		j := sub*groups + g
		each(j)
		for v := range 2 {
			b.code(weights, j, v, b.Reg(12+v), Y15)
		}
		for r := range b.rows {
			b.VPBROADCASTD(b.q8(r, 4*j), Y14)
			for v := range 2 {
				b.product(Y14, b.Reg(12+v), Y15, b.int(r, v), g%b.low.widen == 0)
			}
		}
		b.widenAfter(sub, g, groups)
	}
}

// pairsOfRow is pairs for one row, one vector of weights after the other.
func (b *block256) pairsOfRow(weights GPPhysical, sub, groups int, each func(j int)) {
	for g := range groups {
		j := sub*groups + g
		each(j)
		b.VPBROADCASTD(b.q8(0, 4*j), Y14)
		for v := range b.vectors {
			b.code(weights, j, v, Y12, Y13)
			b.product(Y14, Y12, Y15, b.int(0, v), g%b.low.widen == 0)
		}
		b.widenAfter(sub, g, groups)
	}
}

// widenAfter widens the sums if group g is the last that fits in 16 bits.
func (b *block256) widenAfter(sub, g, groups int) {
	if g%b.low.widen == b.low.widen-1 {
		b.widened(sub, g+1 == b.low.widen, g+1 == groups)
	}
}

// widened widens the sums to 32 bits, and adds them to those before.
func (b *block256) widened(sub int, first, last bool) {
	for r := range b.rows {
		if last {
			b.VPBROADCASTD(b.q8(r, b.bias(sub)), Y14)
		}
		for v := range b.vectors {
			sum := b.int(r, v)
			b.VPMADDWD(b.words, sum, sum)
			if !first {
				b.VPADDD(b.partial(r, v), sum, sum)
			}
			if last {
				b.VPADDD(Y14, sum, sum)
			} else {
				b.Move(sum, b.partial(r, v))
			}
		}
	}
}

// scaled adds the scaled integer sums of a vector to the float sums, see dot.scaled; after the last, minima × scale × sum of the
// activations.
func (b *block256) scaled(scale GPPhysical, sub, v int, sum func(r int) VecPhysical) {
	b.VMOVUPS(emit.At(scale, sub*128+v*b.Bytes), Y12)
	b.VMULPS(b.magic, Y12, Y13)
	for r := range b.rows {
		b.VFMSUB132PS(Y12, Y13, sum(r))
	}
	mins := 0
	if b.mins && sub == b.subs()-1 {
		mins = b.subs()
	}
	for i := range mins {
		b.VMOVUPS(emit.At(R13, 128*i+v*b.Bytes), b.Reg(12+i))
	}
	for r := range b.rows {
		b.VBROADCASTSS(b.q8(r, q8Scale), Y14)
		total := sum(r)
		if held, near := b.held(r, v).(VecPhysical); near {
			b.VFMADD231PS(Y14, total, held)
			total = held
		} else {
			b.VFMADD213PS(b.held(r, v), Y14, total)
		}
		if mins > 0 {
			b.minimum(r, total)
		}
		if b.floats == 0 {
			b.VMOVUPS(total, b.held(r, v))
		}
	}
}

// minimum adds a row's minima × scale × sum of the activations to sum. Registers from 12 on hold the minima; it uses register 14.
func (b *block256) minimum(r int, sum VecPhysical) {
	at := q8Sum
	if b.sub16 {
		at += 4
	}
	for i := range b.subs() {
		b.VBROADCASTSS(b.q8(r, at+4*i), Y14)
		b.VFMADD231PS(Y14, b.Reg(12+i), sum)
	}
}
