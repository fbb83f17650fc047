package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ridge-llm/ridge/tools/asm/emit"
)

// unpack writes the kernel that turns a layout into U8: worth its stores once several tiles of activations follow.
func unpack(w emit.Width, f layout, consts constants) {
	unpackTo("unpack"+f.name, "U8", w, f, consts, 32)
}

// unpackTo writes the kernel of that name, which turns so many of 32 rows of a layout into bytes of the layout `to`.
func unpackTo(name, to string, w emit.Width, f layout, consts constants, rows int) {
	name += w.Suffix()
	w.Func(name, "func(panel *byte, w *byte, blocks int)",
		fmt.Sprintf("%s turns blocks of %s codes of %d rows into %s.", name, f.name, rows, to))
	panel, weights, blocks := w.Arg("panel", RDI), w.Arg("w", RAX), w.Arg("blocks", RCX)
	c := consts.codes(w, f, 6, registers(w))
	w.Label("loop")
	for j := range 8 {
		for v := 0; v < 4*rows; v += w.Bytes {
			i := (4*rows*j + v) / w.Bytes % 3
			f.group(c, j, emit.At(weights, v), w.Reg(i), w.Reg(3+i))
			w.Move(w.Reg(i), emit.At(panel, 4*rows*j+v))
		}
	}
	w.Advance(weights, 128*f.planes)
	w.Advance(panel, 32*rows)
	w.SUBQ(Imm(1), blocks)
	w.JNZ(LabelRef("loop"))
	w.VZEROUPPER()
	w.RET()
}
