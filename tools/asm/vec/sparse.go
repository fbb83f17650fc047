package main

import (
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ridge-llm/ridge/tools/asm/emit"
)

// sparse writes the expansion of blocks of 2:4 sparse numbers (quant.BF16_2_4 and F16_2_4) to float32.
func sparse(w emit.Width) func(*emit.Asm) {
	return func(a *emit.Asm) {
		w.Asm = a
		expandSparse(w, "expandBF16", func(src Op, v int) {
			w.VPMOVZXWD(src, narrow(w, v))
			w.VPSLLD(Imm(16), narrow(w, v), narrow(w, v))
		})
		expandSparse(w, "expandF16", func(src Op, v int) { w.VCVTPH2PS(src, narrow(w, v)) })
	}
}

// expandSparse writes n blocks: masks of 64 numbers, and then those that are stored, which widen makes float32. With AVX-512 they are put in their
// places by masks of 16 numbers; with AVX2 before they are widened, by a table of the places for each mask of eight numbers, [256][16] bytes.
func expandSparse(w emit.Width, name string, widen func(src Op, v int)) {
	const block, masks = 72, 8
	w.Func(name+w.Suffix(), "func(dst *float32, src *byte, n int, table *byte)", name+w.Suffix()+" expands n blocks of 64 numbers.")
	dst, src, n, table := w.Arg("dst", RDI), w.Arg("src", RSI), w.Arg("n", RCX), w.Arg("table", RDX)
	w.Label("loop")
	lanes := w.Bytes / 4
	for i := range 64 / lanes {
		values := emit.At(src, masks+lanes*i) // of half as many numbers, two bytes each
		if w.AVX512() {
			k := []OpmaskPhysical{K1, K2, K3, K4}[i]
			w.KMOVW(emit.At(src, 2*i), k)
			widen(values, i)
			w.VPEXPANDD_Z(w.Reg(i), k, w.Reg(i))
		} else {
			x := w.Quarter(i)
			w.MOVBLZX(emit.At(src, i), EAX)
			w.SHLQ(Imm(4), RAX)
			w.VMOVQ(values, x)
			w.VPSHUFB(emit.Indexed(table, RAX, 1, 0), x, x)
			widen(x, i)
		}
		w.VMOVUPS(w.Reg(i), emit.At(dst, w.Bytes*i))
	}
	w.Advance(src, block)
	w.Advance(dst, 4*64)
	w.SUBQ(Imm(1), n)
	w.JNZ(LabelRef("loop"))
	w.VZEROUPPER()
	w.RET()
}

// narrow is register i as it is written by eight float32, of a mask's stored numbers with AVX-512 and of all with AVX2.
func narrow(w emit.Width, i int) VecPhysical { return w.Reg(i).AsY().(VecPhysical) }
