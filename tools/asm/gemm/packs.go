package main

import (
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ridge-llm/ridge/tools/asm/emit"
)

// packs writes the kernels that interleave parts of 32 rows' blocks, each of which becomes planes of one or several blocks of
// 32 k. All have the same arguments: rows lie stride bytes apart at src; a row's n parts lie srcStep bytes apart, and
// go dstStep bytes apart; where a part belongs to several blocks, those are subStep bytes apart.
func packs(w emit.Width) func(*emit.Asm) {
	return func(a *emit.Asm) {
		w.Asm = a
		p := packer{Width: w, mask: map[byte]Mem{}}
		for _, b := range []byte{0x0f, 0xf0, 0x80, 0x40, 0x20, 0x10, 0x08, 0x04, 0x02, 0x01, 0x03, 0x0c, 0x30, 0xc0} {
			p.mask[b] = w.FixedBytes("pack"+string("0123456789abcdef"[b>>4])+string("0123456789abcdef"[b&15])+w.Suffix(), b)
		}
		p.kernel("packWords", "copies 16 bytes, four planes.", 1, func() {
			for k := range 4 {
				p.Move(p.word(k), p.at(0, k))
			}
		})
		p.kernel("packInt8", "copies 16 signed bytes plus 128, four planes.", 1, func() {
			for k := range 4 {
				p.Xor(p.mask[0x80], p.word(k), p.word(k))
				p.Move(p.word(k), p.at(0, k))
			}
		})
		p.kernel("packNibbles", "makes four planes of nibbles of two blocks out of 32 bytes: a block of low halves, one of high.", 2, func() {
			for k := range 4 {
				p.gather(p.at(0, k), term{k, 0, 0x0f}, term{4 + k, 4, 0xf0})
				p.gather(p.at(1, k), term{k, -4, 0x0f}, term{4 + k, 0, 0xf0})
			}
		})
		p.kernel("pack2Bit", "makes two planes of two-bit fields of four blocks out of 32 bytes.", 2, func() {
			for block := range 4 {
				for half := range 2 {
					var terms []term
					for f := range 4 {
						terms = append(terms, term{4*half + f, 2*f - 2*block, 3 << (2 * f)})
					}
					p.gather(p.at(block, half), terms...)
				}
			}
		})
		p.kernel("pack1Bit", "makes a plane of bits of eight blocks out of 32 bytes.", 2, func() {
			for block := range 8 {
				var terms []term
				for j := range 8 {
					terms = append(terms, term{j, j - block, 1 << j})
				}
				p.gather(p.at(block, 0), terms...)
			}
		})
	}
}

// packF16 writes the kernel that interleaves half floats: two bytes of each row at a time, which is as fast as the
// codes beside them are.
func packF16(a *emit.Asm) {
	a.Func("packF16", "func(dst *byte, dstStep int, src *byte, srcStep int, stride int, n int)",
		"packF16 copies n half floats, srcStep bytes apart, of each of 32 rows, stride bytes apart, as [n][32], dstStep bytes apart.")
	dst, src, stride, n := a.Arg("dst", RDI), a.Arg("src", RSI), a.Arg("stride", RCX), a.Arg("n", R8)
	dstStep, srcStep := a.Arg("dstStep", RBX), a.Arg("srcStep", RDX)
	a.LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, R9)
	a.Label("loop")
	a.MOVQ(src, RAX)
	for r := 0; r < 32; r += 4 {
		for i, from := range []Mem{emit.At(RAX, 0), emit.Indexed(RAX, stride, 1, 0), emit.Indexed(RAX, stride, 2, 0), emit.Indexed(RAX, R9, 1, 0)} {
			a.MOVWLZX(from, R10L)
			a.MOVW(R10W, emit.At(dst, 2*(r+i)))
		}
		a.LEAQ(Mem{Base: RAX, Index: stride, Scale: 4}, RAX)
	}
	a.ADDQ(srcStep, src)
	a.ADDQ(dstStep, dst)
	a.SUBQ(Imm(1), n)
	a.JNZ(LabelRef("loop"))
	a.RET()
}

type packer struct {
	emit.Width
	mask  map[byte]Mem
	first int // row of the current vector
}

// word is register k of the transposed part: its bytes 4k to 4k+3, of as many rows as the register has lanes.
func (p *packer) word(k int) VecPhysical { return p.Reg(k) }

// at is where the current rows of a plane of a block lie; R10 to R13 point at blocks 0, 2, 4, 6, subStep is R9.
func (p *packer) at(block, plane int) Mem {
	m := emit.At([]Register{R10, R11, R12, R13}[block/2], 128*plane+4*p.first)
	if block%2 == 1 {
		m.Index, m.Scale = R9, 1
	}
	return m
}

// term is a word shifted left and masked.
type term struct {
	word, shift int
	mask        byte
}

// gather stores the sum of the terms.
func (p *packer) gather(to Mem, terms ...term) {
	sum, t := p.Reg(8), p.Reg(9)
	for i, term := range terms {
		dst := t
		if i == 0 {
			dst = sum
		}
		p.Move(p.word(term.word), dst)
		p.Shift(term.shift, dst)
		p.And(p.mask[term.mask], dst, dst)
		if i > 0 {
			p.Or(t, sum, sum)
		}
	}
	p.Move(sum, to)
}

// kernel writes one function; body turns the words of the current rows (of one or two groups of 16 bytes) into planes.
func (p *packer) kernel(name, doc string, groups int, body func()) {
	p.Func(name+p.Suffix(), "func(dst *byte, dstStep int, subStep int, src *byte, srcStep int, stride int, n int)",
		name+p.Suffix()+" "+doc)
	dst, src, stride, n := p.Arg("dst", RDI), p.Arg("src", RSI), p.Arg("stride", RCX), p.Arg("n", R8)
	dstStep, srcStep, subStep := p.Arg("dstStep", RBX), p.Arg("srcStep", RDX), p.Arg("subStep", R9)
	p.Label("loop")
	p.MOVQ(src, RAX)
	p.MOVQ(dst, R10)
	if groups == 2 {
		p.LEAQ(Mem{Base: dst, Index: subStep, Scale: 2}, R11)
		p.LEAQ(Mem{Base: dst, Index: subStep, Scale: 4}, R12)
		p.LEAQ(Mem{Base: R11, Index: subStep, Scale: 4}, R13)
	}
	for p.first = 0; p.first < 32; p.first += p.Bytes / 4 {
		p.squares(groups, stride)
		body()
	}
	p.ADDQ(srcStep, src)
	p.ADDQ(dstStep, dst)
	p.SUBQ(Imm(1), n)
	p.JNZ(LabelRef("loop"))
	p.VZEROUPPER()
	p.RET()
}

// squares loads groups of 16 bytes of as many rows as a register has lanes, and moves RAX past the rows. A register gets
// four words of row i in its first 128 bits, of row i+4 in the next, and so on, so that transposing every 4 × 4 square
// within its 128 bits leaves the rows in order, a word of each.
func (p *packer) squares(groups int, stride GPPhysical) {
	for lane := range p.Bytes / 16 {
		for i := range 4 {
			for g := range groups {
				r := 4*g + i
				switch at := emit.At(RAX, 16*g); {
				case lane == 0:
					p.VMOVDQU(at, p.Quarter(r))
				case p.AVX512():
					p.VINSERTI32X4(Imm(uint64(lane)), at, p.Reg(r), p.Reg(r))
				default:
					p.VINSERTI128(Imm(uint64(lane)), at, p.Reg(r), p.Reg(r))
				}
			}
			p.ADDQ(stride, RAX)
		}
	}
	for g := range groups {
		in := func(i int) VecPhysical { return p.Reg(4*g + i) }
		t := func(i int) VecPhysical { return p.Reg(8 + i) }
		p.VPUNPCKLDQ(in(1), in(0), t(0))
		p.VPUNPCKHDQ(in(1), in(0), t(1))
		p.VPUNPCKLDQ(in(3), in(2), t(2))
		p.VPUNPCKHDQ(in(3), in(2), t(3))
		p.VPUNPCKLQDQ(t(2), t(0), in(0))
		p.VPUNPCKHQDQ(t(2), t(0), in(1))
		p.VPUNPCKLQDQ(t(3), t(1), in(2))
		p.VPUNPCKHQDQ(t(3), t(1), in(3))
	}
}
