package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ridge-llm/ridge/tools/asm/emit"
)

// int8Kernels write the matmuls of an int8 cache, for up to most rows, and the quantization of Q and P; see int8Kernels of
// package attn. A group of four quantized numbers is, for VPDPBUSD, their four upper bytes and then their four lower ones,
// and otherwise four words for VPMADDWD.
func int8Kernels(w emit.Width, most int) func(*emit.Asm) {
	return func(a *emit.Asm) {
		w.Asm = a
		for rows := 1; rows <= most; rows++ {
			byteProduct{operands{w, rows, [2]GPPhysical{R8, R8}}, true, 4 * rows}.write()
			byteProduct{operands{w, rows, [2]GPPhysical{R8, R8}}, false, 4 * rows}.write()
		}
		round(w, "quantizeQ", true)
		round(w, "quantizeP", false)
	}
}

// byteProduct is one kernel. Each vector of columns of a row has two sums: of the upper and lower bytes, or, without
// VNNI, of the columns' halves, which two words each are left of.
type byteProduct struct {
	operands
	scores bool // signed rows and unsigned bytes; the other way round for values
	free   int  // first register behind the sums
}

func (p byteProduct) sum(m, v, i int) VecPhysical { return p.w.Reg(4*m + 2*v + i) }

const (
	keyTile    = 64 // keys in a row of scores
	blockBytes = 64 // a group of a block of 16 tokens
	blockSteps = 4  // groups of a block of values
)

func (p byteProduct) write() {
	w := p.w
	if p.scores {
		name := fmt.Sprintf("qkInt8x%d%s", p.rows, w.Suffix())
		w.Func(name, "func(out *float32, a *float32, b **byte, pair, off, gap, size int, scale *float32, bias *int32, scales int)",
			fmt.Sprintf("%s is the scores of %d rows of queries.", name, p.rows))
		w.Arg("size", RSI)
		w.SHLQ(U8(2), RSI)
	} else {
		name := fmt.Sprintf("pvInt8x%d%s", p.rows, w.Suffix())
		w.Func(name, "func(out *float32, ld int, a *float32, b **byte, pair, off, gap, size, blocks int, scale, rescale *float32)",
			fmt.Sprintf("%s adds values times %d rows of P to rescaled sums.", name, p.rows))
		w.MOVQ(U32(4*keyTile), RSI)
	}
	w.Arg("a", R8)
	if p.rows > 3 {
		w.LEAQ(Mem{Base: RSI, Index: RSI, Scale: 2}, R10)
		w.LEAQ(Mem{Base: RSI, Index: RSI, Scale: 4}, R11)
	}
	for i := range 4 * p.rows {
		w.Zero(w.Reg(i))
	}
	w.Label("block")
	b0, b1, next0, next1 := p.block()
	n, step := RCX, RDX
	if w.Arg("size", RDX); p.scores {
		w.MOVQ(RDX, n)
		w.SHRQ(U8(2), n)
	} else {
		w.SHLQ(U8(2), step)
		w.MOVQ(U32(blockSteps), n)
	}
	w.Label("loop")
	w.PREFETCHT0(emit.Indexed(b0, next0, 1, 0))
	w.PREFETCHT0(emit.Indexed(b1, next1, 1, 0))
	if w.VNNI {
		p.dots(b0, b1)
	} else {
		p.words(b0, b1)
	}
	if p.scores {
		w.Advance(b0, blockBytes)
		w.Advance(b1, blockBytes)
	} else {
		w.ADDQ(step, b0)
		w.ADDQ(step, b1)
	}
	w.ADDQ(Imm(8), R8)
	w.DECQ(n)
	w.JNZ(LabelRef("loop"))
	if p.scores {
		p.finishScores()
	} else {
		w.ADDQ(Imm(8), w.Slot("b"))
		w.SUBQ(Imm(1), w.Slot("blocks"))
		w.JNZ(LabelRef("block"))
		p.finishValues()
	}
	w.VZEROUPPER()
	w.RET()
}

// dots multiplies a group with VPDPBUSD.
func (p byteProduct) dots(b0, b1 GPPhysical) {
	w, cast := p.w, p.w.Reg(p.free+2)
	w.Move(emit.At(b0, 0), w.Reg(p.free))
	w.Move(emit.At(b1, 0), w.Reg(p.free+1))
	for m := range p.rows {
		for i := range 2 {
			w.VPBROADCASTD(p.row(m).Offset(4*i), cast)
			for v := range 2 {
				if p.scores {
					w.Dot(cast, w.Reg(p.free+v), p.sum(m, v, i))
				} else {
					w.Dot(w.Reg(p.free+v), cast, p.sum(m, v, i))
				}
			}
		}
	}
}

// words multiplies a group with VPMADDWD, whose sums are of pairs.
func (p byteProduct) words(b0, b1 GPPhysical) {
	w, b, cast, t := p.w, p.w.Reg(p.free), p.w.Reg(p.free+1), p.w.Reg(p.free+2)
	for v, at := range []GPPhysical{b0, b1} {
		for i := range 2 {
			if p.scores {
				w.VPMOVZXBW(emit.At(at, 16*i), b)
			} else {
				w.VPMOVSXBW(emit.At(at, 16*i), b)
			}
			for m := range p.rows {
				w.VPBROADCASTQ(p.row(m), cast)
				w.VPMADDWD(cast, b, t)
				w.VPADDD(t, p.sum(m, v, i), p.sum(m, v, i))
			}
		}
	}
}

// whole makes one sum of a column's two.
func (p byteProduct) whole(m, v int) VecPhysical {
	w, sum, other := p.w, p.sum(m, v, 0), p.sum(m, v, 1)
	if w.VNNI {
		w.VPSLLD(U8(8), sum, sum)
		w.VPADDD(other, sum, sum)
	} else {
		w.VPHADDD(other, sum, sum)
		w.VPERMQ(U8(0b11011000), sum, sum)
	}
	return sum
}

// finishScores stores the sums, corrected for the keys' offset, times the scales of queries and keys. RAX and RBX are behind
// the keys.
func (p byteProduct) finishScores() {
	w, scales, scale := p.w, [2]VecPhysical{p.w.Reg(p.free), p.w.Reg(p.free + 1)}, p.w.Reg(p.free+2)
	w.Arg("size", RDX)
	w.SHLQ(U8(4), RDX)
	w.Arg("scales", RCX)
	w.SUBQ(RDX, RCX)
	w.VMOVUPS(emit.Indexed(RAX, RCX, 1, 0), scales[0])
	w.VMOVUPS(emit.Indexed(RBX, RCX, 1, 0), scales[1])
	w.Arg("scale", RDX)
	w.Arg("bias", RBX)
	w.Arg("out", RDI)
	for m := range p.rows {
		bias := p.sum(m, 0, 1)
		for v := range 2 {
			p.whole(m, v)
		}
		w.VPBROADCASTD(emit.At(RBX, 4*m), bias)
		w.VBROADCASTSS(emit.At(RDX, 4*m), scale)
		for v := range 2 {
			sum := p.sum(m, v, 0)
			w.VPADDD(bias, sum, sum)
			w.VCVTDQ2PS(sum, sum)
			w.VMULPS(scale, sum, sum)
			w.VMULPS(scales[v], sum, sum)
			w.VMOVUPS(sum, emit.At(RDI, 4*keyTile*m+v*w.Bytes))
		}
	}
}

// finishValues adds the sums, times the scale of P, to the rescaled accumulators in out.
func (p byteProduct) finishValues() {
	w, scale, rescale := p.w, p.w.Reg(p.free), p.w.Reg(p.free+1)
	w.Arg("scale", RDX)
	w.Arg("rescale", RBX)
	p.eachOut(func(m, v int, at Mem) {
		if v == 0 {
			w.VBROADCASTSS(emit.At(RDX, 4*m), scale)
			w.VBROADCASTSS(emit.At(RBX, 4*m), rescale)
		}
		sum, held := p.whole(m, v), p.sum(m, v, 1)
		w.VCVTDQ2PS(sum, sum)
		w.VMULPS(at, rescale, held)
		w.VFMADD213PS(held, scale, sum)
		w.VMOVUPS(sum, at)
	})
}
