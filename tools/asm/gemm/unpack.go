package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ridge-llm/ridge/tools/asm/emit"
)

// unpack writes the kernel that turns a layout into U8: worth its stores once several tiles of activations follow.
func unpack(w emit.Width, f layout, consts constants) { unpackTo("unpack"+f.name, "U8", w, f, consts) }

// unpackTo writes the kernel of that name, which turns a layout into bytes of the layout `to`.
func unpackTo(name, to string, w emit.Width, f layout, consts constants) {
	name += w.Suffix()
	w.Func(name, "func(panel *byte, w *byte, blocks int)",
		fmt.Sprintf("%s turns blocks of %s codes of 32 rows into %s.", name, f.name, to))
	panel, weights, blocks := w.Arg("panel", RDI), w.Arg("w", RAX), w.Arg("blocks", RCX)
	c := consts.codes(w, f, 6, registers(w))
	w.Label("loop")
	for v := 0; v < 128; v += w.Bytes {
		for j := range 8 {
			dst := w.Reg(j % 3)
			f.group(c, j, emit.At(weights, v), dst, w.Reg(3+j%3))
			w.Move(dst, emit.At(panel, 128*j+v))
		}
	}
	w.Advance(weights, 128*f.planes)
	w.Advance(panel, 1024)
	w.SUBQ(Imm(1), blocks)
	w.JNZ(LabelRef("loop"))
	w.VZEROUPPER()
	w.RET()
}
