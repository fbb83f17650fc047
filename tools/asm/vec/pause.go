package main

import (
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ridge-llm/ridge/tools/asm/emit"
)

// pause writes the wait of a spin loop, which leaves execution resources to the core's other hardware thread.
func pause(a *emit.Asm) {
	a.Func("pause", "func(n int)", "pause waits for n PAUSE, 15 to 50 ns each.")
	n := a.Arg("n", RCX)
	a.Label("loop")
	a.PAUSE()
	a.SUBQ(Imm(1), n)
	a.JNZ(LabelRef("loop"))
	a.RET()
}
