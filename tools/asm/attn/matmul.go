package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ridge-llm/ridge/tools/asm/emit"
)

// element is a number type of the cache and how a vector of it becomes float32.
type element struct {
	name string
	load func(w emit.Width, m Mem, r VecPhysical)
}

var elements = []element{
	{"F32", func(w emit.Width, m Mem, r VecPhysical) { w.VMOVUPS(m, r) }},
	{"F16", func(w emit.Width, m Mem, r VecPhysical) { w.VCVTPH2PS(m, r) }},
	{"BF16", func(w emit.Width, m Mem, r VecPhysical) {
		w.VPMOVZXWD(m, r)
		w.VPSLLD(Imm(16), r, r)
	}},
}

// products write out[m][two vectors] = start + Σ_k a[m][k]·b[k][two vectors] for every number of rows m up to rows;
// k goes over n rows, step bytes apart, in each of some blocks. b is a table of the blocks' addresses, and 4 entries on of
// those of the next key tile, which are prefetched. The first vector is off bytes into a row of the block at b, the
// second off + gap bytes into one of the block at b + pair.
//
// Scores are such a product (a: queries, b: a block of keys, k: the head's dimensions) and so are the outputs (a:
// probabilities, b: values, k: keys).
func products(w emit.Width, rows int) func(*emit.Asm) {
	return func(a *emit.Asm) {
		w.Asm = a
		for _, e := range elements {
			for m := 1; m <= rows; m++ {
				product(w, e, m)
			}
		}
	}
}

// operands says where the numbers of a product are: up to six rows of a are reached from R8, the next six from R9.
type operands struct {
	w      emit.Width
	rows   int
	halves [2]GPPhysical // a and its row 6
}

func (p operands) sum(m, v int) VecPhysical { return p.w.Reg(2*m + v) }

// row is a[m][k], of which k is where the halves point.
func (p operands) row(m int) Mem {
	base := p.halves[m/6]
	switch m % 6 {
	case 0:
		return emit.At(base, 0)
	case 3:
		return emit.Indexed(base, R10, 1, 0)
	case 5:
		return emit.Indexed(base, R11, 1, 0)
	default:
		return emit.Indexed(base, RSI, uint8(m%6), 0)
	}
}

// ahead is how many entries later in the block table the block is that is prefetched while a block is read.
const ahead = 4

func product(w emit.Width, e element, rows int) {
	name := fmt.Sprintf("matmul%sx%d%s", e.name, rows, w.Suffix())
	w.Func(name, "func(out *float32, ld int, a *float32, lda int, b **byte, pair, off, gap, step int, blocks, n int, scale *float32, start int)",
		fmt.Sprintf("%s is %d rows of start + Σ a·b over n rows of each of some blocks.", name, rows))
	p := operands{w, rows, [2]GPPhysical{R8, R9}}
	w.Arg("a", R8)
	w.Arg("lda", RSI)
	if rows > 3 {
		w.LEAQ(Mem{Base: RSI, Index: RSI, Scale: 2}, R10)
		w.LEAQ(Mem{Base: RSI, Index: RSI, Scale: 4}, R11)
	}
	if rows > 6 {
		w.LEAQ(Mem{Base: R8, Index: R10, Scale: 2}, R9)
	}
	p.begin()
	w.Label("block")
	b0, b1, next0, next1 := p.block()
	step, n := w.Arg("step", RDX), w.Arg("n", RCX)
	w.Label("loop")
	first := 24
	if !w.AVX512() {
		first = 12
	}
	e.load(w, emit.At(b0, 0), w.Reg(first))
	e.load(w, emit.At(b1, 0), w.Reg(first+1))
	w.PREFETCHT0(emit.Indexed(b0, next0, 1, 0))
	w.PREFETCHT0(emit.Indexed(b1, next1, 1, 0))
	for m := range rows {
		cast := w.Reg(14 + m%2)
		if w.AVX512() {
			cast = w.Reg(26 + m%6)
		}
		w.VBROADCASTSS(p.row(m), cast)
		w.VFMADD231PS(cast, w.Reg(first), p.sum(m, 0))
		w.VFMADD231PS(cast, w.Reg(first+1), p.sum(m, 1))
	}
	w.ADDQ(step, b0)
	w.ADDQ(step, b1)
	w.ADDQ(Imm(4), R8)
	if rows > 6 {
		w.ADDQ(Imm(4), R9)
	}
	w.DECQ(n)
	w.JNZ(LabelRef("loop"))
	w.ADDQ(Imm(8), w.Slot("b"))
	w.SUBQ(Imm(1), w.Slot("blocks"))
	w.JNZ(LabelRef("block"))
	p.eachOut(func(m, v int, at Mem) { w.VMOVUPS(p.sum(m, v), at) })
	w.VZEROUPPER()
	w.RET()
}

// block loads the addresses of the current block's vectors, and the distances of those to prefetch; it uses RCX, RDX
// and RDI.
func (p operands) block() (b0, b1, next0, next1 GPPhysical) {
	w := p.w
	b0, b1, next0, next1 = RAX, RBX, R12, R13
	table, pair := w.Arg("b", RDI), w.Arg("pair", RDX)
	w.MOVQ(emit.At(table, 0), b0)
	w.MOVQ(emit.At(table, 8*ahead), next0)
	w.MOVQ(emit.Indexed(table, pair, 1, 0), b1)
	w.MOVQ(emit.Indexed(table, pair, 1, 8*ahead), next1)
	w.SUBQ(b0, next0)
	w.SUBQ(b1, next1)
	off, gap := w.Arg("off", RDX), w.Arg("gap", RCX)
	w.ADDQ(off, b0)
	w.ADDQ(off, b1)
	w.ADDQ(gap, b1)
	return b0, b1, next0, next1
}

// begin sets the sums: zero (start 0), what out holds (1), or that times the row's scale (2).
func (p operands) begin() {
	w := p.w
	w.Arg("start", RAX)
	w.CMPQ(RAX, Imm(1))
	w.JG(LabelRef("scaled"))
	w.JE(LabelRef("held"))
	for m := range p.rows {
		for v := range 2 {
			w.Zero(p.sum(m, v))
		}
	}
	w.JMP(LabelRef("begun"))
	w.Label("held")
	p.eachOut(func(m, v int, at Mem) { w.VMOVUPS(at, p.sum(m, v)) })
	w.JMP(LabelRef("begun"))
	w.Label("scaled")
	w.Arg("scale", RBX)
	p.eachOut(func(m, v int, at Mem) {
		cast := w.Reg(15)
		if w.AVX512() {
			cast = w.Reg(31)
		}
		if v == 0 {
			w.VBROADCASTSS(emit.At(RBX, 4*m), cast)
		}
		w.VMULPS(at, cast, p.sum(m, v))
	})
	w.Label("begun")
}

// eachOut walks over the vectors of out by way of RDI and RAX.
func (p operands) eachOut(do func(m, v int, at Mem)) {
	p.w.Arg("out", RDI)
	p.w.Arg("ld", RAX)
	for m := range p.rows {
		for v := range 2 {
			do(m, v, emit.At(RDI, v*p.w.Bytes))
		}
		if m+1 < p.rows {
			p.w.ADDQ(RAX, RDI)
		}
	}
}
