package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ridge-llm/ridge/tools/asm/emit"
)

// A block of a tile of activations in 16-bit words: of each row the even and then the odd ones of every four k, in pairs, and then the rows' float32 scales.
const (
	wordsRow   = 64
	wordsScale = wordsRow * tileRows
	wordsBlock = wordsScale + 32
)

// words writes the kernels that multiply codes of eight bits with many rows of activations for AVX2 without VNNI, as words by VPMADDWD: two multiplications
// and two additions for 32 products, as for bytes in two halves, but sums need not be widened, nor bytes be taken apart in every tile.
func words(w emit.Width) func(*emit.Asm) {
	return func(a *emit.Asm) {
		w.Asm = a
		consts := writeConstants(w)
		widenBlocks(w)
		unpackWords(w, consts)
		for _, f := range layouts {
			if f.name == "U8" || f.name == "S8" {
				t := wordTile{newBlock256(w, f, nil, consts, tileRows)}
				t.kernel()
			}
		}
	}
}

// words of the even and the odd bytes of src.
func evenAndOdd(w emit.Width, src, even VecPhysical) {
	w.VPSLLW(Imm(8), src, even)
	w.VPSRAW(Imm(8), even, even)
	w.VPSRAW(Imm(8), src, src)
}

// widenBlocks writes the conversion of a row's Q8 blocks.
func widenBlocks(w emit.Width) {
	name := "widenBlocks" + w.Suffix()
	w.Func(name, "func(words, scales *byte, to int, src *byte, step, n int)", name+" turns n Q8 blocks of a row, step bytes apart, into words and scales, to bytes apart.")
	to, scales, src := w.Arg("words", RDI), w.Arg("scales", RDX), w.Arg("src", RSI)
	apart, step, n := w.Arg("to", R8), w.Arg("step", RBX), w.Arg("n", RCX)
	w.Label("loop")
	w.Move(emit.At(src, 0), Y0)
	evenAndOdd(w, Y0, Y1)
	w.Move(Y1, emit.At(to, 0))
	w.Move(Y0, emit.At(to, 32))
	w.MOVL(emit.At(src, q8Scale), RAX.As32())
	w.MOVL(RAX.As32(), emit.At(scales, 0))
	w.ADDQ(step, src)
	w.ADDQ(apart, to)
	w.ADDQ(apart, scales)
	w.DECQ(n)
	w.JNZ(LabelRef("loop"))
	w.VZEROUPPER()
	w.RET()
}

// unpackWords writes the conversion of bytes, with an offset of 128, of 16 of 32 rows: the even k of every four of 8 rows and of 8 more, then the odd ones.
func unpackWords(w emit.Width, consts constants) {
	name := "unpackWords" + w.Suffix()
	w.Func(name, "func(panel, w *byte, blocks int)", name+" turns blocks of bytes of 16 rows into words.")
	panel, weights, blocks := w.Arg("panel", RDI), w.Arg("w", RAX), w.Arg("blocks", RCX)
	w.Move(consts.mask[0x80], Y15)
	w.Label("loop")
	for j := range 8 {
		for v := range 2 {
			src, even := w.Reg(4*(j%2)+v), w.Reg(4*(j%2)+2+v)
			w.Xor(emit.At(weights, 128*j+32*v), Y15, src)
			evenAndOdd(w, src, even)
			w.Move(even, emit.At(panel, 128*j+32*v))
			w.Move(src, emit.At(panel, 128*j+64+32*v))
		}
	}
	w.Advance(weights, 1024)
	w.Advance(panel, 1024)
	w.DECQ(blocks)
	w.JNZ(LabelRef("loop"))
	w.VZEROUPPER()
	w.RET()
}

// wordTile is tile256 for words.
type wordTile struct{ block256 }

// kernel writes one, with the registers of tile256's.
func (t *wordTile) kernel() {
	name := "tilesWords" + t.name + t.Suffix()
	t.Func(name, "func(out *float32, ld int, fresh bool, w *byte, scale *float32, act *byte, blocks, tiles int, codes, codesEnd, scales, scalesEnd uintptr)",
		fmt.Sprintf("%s adds the products of tiles of %d rows of activations in words with 16 rows of weights to out, or sets out to them.", name, tileRows))
	t.Attributes(0) // its frame is too large for NOSPLIT
	frame := t.AllocLocal(2*floatBytes + 64)
	out, ld, act := t.Arg("out", RDI), t.Arg("ld", RSI), t.Arg("act", RDX)
	ahead := [2]GPPhysical{t.Arg("codes", R11), t.Arg("scales", R12)}
	for r := range tileRows {
		t.act[r] = emit.At(act, wordsScale+4*r-q8Scale)
	}
	t.Label("tile")
	weights, scale, blocks := t.Arg("w", RAX), t.Arg("scale", RBX), t.Arg("blocks", R8)
	for i, end := range []string{"codesEnd", "scalesEnd"} {
		t.CMPQ(ahead[i], t.Slot(end))
		t.CMOVQCC(weights, ahead[i]) // the panel: there is nothing left to prefetch
	}
	(&tile256{t.block256}).start(frame, out, ld)
	t.Label("loop")
	for i, lines := range aheadLines {
		for l := range lines {
			t.PREFETCHT1(emit.At(ahead[i], 64*l))
		}
		t.Advance(ahead[i], 64*lines)
	}
	groups := 8 / t.subs()
	for sub := range t.subs() {
		for r := range t.rows {
			for v := range t.vectors {
				t.Move(t.magic, t.int(r, v))
			}
		}
		for j := sub * groups; j < (sub+1)*groups; j++ {
			t.pairs(weights, act, 128*j, 4*j)
			t.pairs(weights, act, 128*j+64, 32+4*j)
		}
		for v := range t.vectors {
			t.scaled(scale, sub, v, func(r int) VecPhysical { return t.int(r, v) })
		}
	}
	t.Advance(weights, 1024)
	t.Advance(scale, 128*t.subs())
	t.Advance(act, wordsBlock)
	t.SUBQ(Imm(1), blocks)
	t.JNZ(LabelRef("loop"))
	t.store(out, ld)
	t.SUBQ(Imm(1), t.Slot("tiles"))
	t.JNZ(LabelRef("tile"))
	t.VZEROUPPER()
	t.RET()
}

// pairs adds the products of two k of every row.
func (t *wordTile) pairs(weights, act GPPhysical, w, x int) {
	for v := range t.vectors {
		t.Move(emit.At(weights, w+32*v), t.Reg(12+v))
	}
	for r := range t.rows {
		t.VPBROADCASTD(emit.At(act, x+wordsRow*r), Y14)
		for v := range t.vectors {
			t.VPMADDWD(Y14, t.Reg(12+v), Y15)
			t.VPADDD(Y15, t.int(r, v), t.int(r, v))
		}
	}
}
