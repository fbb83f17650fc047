package main

import (
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ridge-llm/ridge/tools/asm/emit"
)

// transposes writes the kernels that interleave 32 rows: of a float panel, and of the codes of Q4_0 and Q8_0, whose
// blocks need nothing else.
func transposes(w emit.Width) func(*emit.Asm) {
	return func(a *emit.Asm) {
		w.Asm = a
		flip := w.FixedBytes("flip"+w.Suffix(), 0x80)
		transpose(w, "transpose", "writes n × 4 words of each of 32 rows, stride bytes apart, as [4 n][32].", []int{0}, 16, nil)
		transpose(w, "packNibbles", "interleaves the codes of n blocks of 18 bytes (a half float, 16 bytes) of 32 rows.", []int{2}, 18, nil)
		transpose(w, "packBytes", "interleaves the codes of n blocks of 34 bytes (a half float, 32 bytes) of 32 rows, plus 128.", []int{2, 18}, 34, flip)
	}
}

// transpose works on 16 bytes of each row at a time, at the given places of a block of blockBytes: a register holds
// four words of row i in its first 128 bits, of row i+4 in the next, and so on, so that transposing every 4 × 4 square
// within its 128 bits leaves the rows in order.
func transpose(w emit.Width, name, doc string, places []int, blockBytes int, flip Op) {
	w.Func(name+w.Suffix(), "func(dst *byte, src *byte, stride int, n int)", name+w.Suffix()+" "+doc)
	dst, src, stride, n := w.Arg("dst", RDI), w.Arg("src", RSI), w.Arg("stride", RCX), w.Arg("n", R8)
	r := w.Reg
	if flip != nil {
		w.Move(flip, r(8))
	}
	w.Label("loop")
	for part, place := range places {
		w.MOVQ(src, RAX)
		for first := 0; first < 32; first += w.Bytes / 4 {
			gatherSquares(w, RAX, stride, place)
			w.VPUNPCKLDQ(r(1), r(0), r(4))
			w.VPUNPCKHDQ(r(1), r(0), r(5))
			w.VPUNPCKLDQ(r(3), r(2), r(6))
			w.VPUNPCKHDQ(r(3), r(2), r(7))
			w.VPUNPCKLQDQ(r(6), r(4), r(0))
			w.VPUNPCKHQDQ(r(6), r(4), r(1))
			w.VPUNPCKLQDQ(r(7), r(5), r(2))
			w.VPUNPCKHQDQ(r(7), r(5), r(3))
			for k := range 4 {
				if flip != nil {
					w.Xor(r(8), r(k), r(k))
				}
				w.Move(r(k), emit.At(dst, 512*part+128*k+4*first))
			}
		}
	}
	w.Advance(src, blockBytes)
	w.Advance(dst, 512*len(places))
	w.SUBQ(Imm(1), n)
	w.JNZ(LabelRef("loop"))
	w.VZEROUPPER()
	w.RET()
}

// gatherSquares loads 16 bytes of as many rows as a register has lanes into registers 0 to 3, and moves row past them.
func gatherSquares(w emit.Width, row, stride GPPhysical, disp int) {
	for lane := range w.Bytes / 16 {
		for i := range 4 {
			switch at := emit.At(row, disp); {
			case lane == 0:
				w.VMOVDQU(at, w.Quarter(i))
			case w.Wide():
				w.VINSERTI32X4(Imm(uint64(lane)), at, w.Reg(i), w.Reg(i))
			default:
				w.VINSERTI128(Imm(uint64(lane)), at, w.Reg(i), w.Reg(i))
			}
			w.ADDQ(stride, row)
		}
	}
}
