package main

import (
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ridge-llm/ridge/tools/asm/emit"
)

// states writes the steps of state space layers.
func states(w emit.Width) func(*emit.Asm) {
	return func(a *emit.Asm) {
		w.Asm = a
		stateSteps(w)
		scanSteps(w)
	}
}

// remainder leaves in n the whole vectors of n numbers, and prepares the mask of the others, whose number is in rest.
func remainder(w emit.Width, n, rest GPPhysical) {
	w.MOVQ(n, rest)
	w.ANDQ(Imm(uint64(w.Bytes/4-1)), rest)
	w.MOVQ(rest, RCX)
	w.TailMask(RCX)
	w.SHRQ(Imm(map[int]uint64{32: 3, 64: 4}[w.Bytes]), n)
}

// stateSteps takes four rows of a state at a time, for each of which B and C are loaded, and then the others one by one.
func stateSteps(w emit.Width) {
	name := "stateSteps" + w.Suffix()
	w.Func(name, "func(h, x, y *float32, rows int, in, read *float32, n int, decay, step, skip float32)",
		name+" is h ← decay·h + (step·x) ⊗ in and y = h·read + skip·x, of rows × n numbers.")
	h, x, y, rows, in, read, n := w.Arg("h", RDI), w.Arg("x", RSI), w.Arg("y", RDX), w.Arg("rows", RBX), w.Arg("in", R8), w.Arg("read", R9), w.Arg("n", R10)
	stride, three, rest, at, count := R12, R13, RAX, R15, RCX
	w.MOVQ(n, stride)
	w.SHLQ(Imm(2), stride)
	w.LEAQ(emit.Indexed(stride, stride, 2, 0), three)
	remainder(w, n, rest)
	g, b, c, row := w.Reg(8), w.Reg(9), w.Reg(10), w.Reg(11)
	w.Broadcast("decay", g)
	sum, by := func(i int) VecPhysical { return w.Reg(i) }, func(i int) VecPhysical { return w.Reg(4 + i) }
	block := func(label string, many int) {
		places := []Mem{emit.At(h, 0), emit.Indexed(h, stride, 1, 0), emit.Indexed(h, stride, 2, 0), emit.Indexed(h, three, 1, 0)}[:many]
		w.Broadcast("step", row)
		for i := range places {
			w.Zero(sum(i))
			w.VBROADCASTSS(emit.At(x, 4*i), by(i))
			w.VMULPS(row, by(i), by(i))
		}
		body := func(load func(Mem, VecPhysical), store func(VecPhysical, Mem)) {
			load(emit.Indexed(in, at, 1, 0), b)
			load(emit.Indexed(read, at, 1, 0), c)
			for i, m := range places {
				load(m, row)
				w.VMULPS(g, row, row)
				w.VFMADD231PS(b, by(i), row)
				store(row, m)
				w.VFMADD231PS(row, c, sum(i))
			}
		}
		w.XORQ(at, at)
		w.MOVQ(n, count)
		w.TESTQ(count, count)
		w.JZ(LabelRef(label + "Tail"))
		w.Label(label + "Vector")
		body(func(m Mem, r VecPhysical) { w.VMOVUPS(m, r) }, func(r VecPhysical, m Mem) { w.VMOVUPS(r, m) })
		w.Advance(h, w.Bytes)
		w.Advance(at, w.Bytes)
		w.DECQ(count)
		w.JNZ(LabelRef(label + "Vector"))
		w.Label(label + "Tail")
		w.TESTQ(rest, rest)
		w.JZ(LabelRef(label + "Sums"))
		body(w.LoadTail, w.StoreTail)
		w.LEAQ(emit.Indexed(h, rest, 4, 0), h)
		w.Label(label + "Sums")
		for range many - 1 {
			w.ADDQ(stride, h)
		}
		if many == 4 {
			sumFour(w)
			w.VMOVUPS(emit.At(x, 0), X1)
			w.VBROADCASTSS(w.Slot("skip"), X2)
			w.VFMADD231PS(X2, X1, X0)
			w.VMOVUPS(X0, emit.At(y, 0))
		} else {
			w.ReduceLanes(w.VADDPS, 0, 1)
			w.VMOVSS(emit.At(x, 0), X1)
			w.VMOVSS(w.Slot("skip"), X2)
			w.VFMADD231SS(X2, X1, X0)
			w.VMOVSS(X0, emit.At(y, 0))
		}
		w.Advance(x, 4*many)
		w.Advance(y, 4*many)
	}
	groups(w, "four", rows, 4, func() { block("four", 4) })
	groups(w, "one", rows, 1, func() { block("one", 1) })
	w.VZEROUPPER()
	w.RET()
}

// sumFour leaves the sums of the lanes of registers 0 to 3 in the lanes of X0; it uses 4.
func sumFour(w emit.Width) {
	if w.AVX512() {
		for i := range 4 {
			w.VEXTRACTF64X4(Imm(1), w.Reg(i), Y4)
			w.VADDPS(Y4, w.Reg(i).AsY(), w.Reg(i).AsY())
		}
	}
	w.VHADDPS(Y1, Y0, Y0)
	w.VHADDPS(Y3, Y2, Y2)
	w.VHADDPS(Y2, Y0, Y0)
	w.VEXTRACTF128(Imm(1), Y0, X1)
	w.VADDPS(X1, X0, X0)
}

// scanSteps takes a row at a time.
func scanSteps(w emit.Width) {
	name := "scanSteps" + w.Suffix()
	w.Func(name, "func(h, rates, steps, by, y *float32, rows int, in, read *float32, n int)",
		name+" is h ← exp(steps·rates)·h + by ⊗ in and y = h·read, of rows × n numbers; a row has one of steps and by.")
	h, rates, steps, by, y := w.Arg("h", RDI), w.Arg("rates", RSI), w.Arg("steps", RDX), w.Arg("by", RBX), w.Arg("y", R8)
	rows, in, read, n := w.Arg("rows", R9), w.Arg("in", R10), w.Arg("read", R12), w.Arg("n", R13)
	rest, at, count := RAX, R15, RCX
	remainder(w, n, rest)
	x, e, t, row, step, more, b, sum := w.Reg(0), w.Reg(3), w.Reg(4), w.Reg(5), w.Reg(6), w.Reg(7), w.Reg(8), w.Reg(12)
	w.Label("row")
	w.VBROADCASTSS(emit.At(steps, 0), step)
	w.VBROADCASTSS(emit.At(by, 0), more)
	w.Zero(sum)
	body := func(load func(Mem, VecPhysical), store func(VecPhysical, Mem)) {
		load(emit.At(rates, 0), x)
		w.VMULPS(step, x, x)
		w.Exp(x, e, t)
		load(emit.At(h, 0), row)
		load(emit.Indexed(in, at, 1, 0), b)
		w.VMULPS(e, row, row)
		w.VFMADD231PS(b, more, row)
		store(row, emit.At(h, 0))
		load(emit.Indexed(read, at, 1, 0), b)
		w.VFMADD231PS(b, row, sum)
	}
	w.XORQ(at, at)
	w.MOVQ(n, count)
	w.TESTQ(count, count)
	w.JZ(LabelRef("tail"))
	w.Label("vector")
	body(func(m Mem, r VecPhysical) { w.VMOVUPS(m, r) }, func(r VecPhysical, m Mem) { w.VMOVUPS(r, m) })
	for _, p := range []GPPhysical{h, rates, at} {
		w.Advance(p, w.Bytes)
	}
	w.DECQ(count)
	w.JNZ(LabelRef("vector"))
	w.Label("tail")
	w.TESTQ(rest, rest)
	w.JZ(LabelRef("sum"))
	body(w.LoadTail, w.StoreTail)
	w.LEAQ(emit.Indexed(h, rest, 4, 0), h)
	w.LEAQ(emit.Indexed(rates, rest, 4, 0), rates)
	w.Label("sum")
	w.ReduceLanes(w.VADDPS, 12, 0)
	w.VMOVSS(X12, emit.At(y, 0))
	for _, p := range []GPPhysical{steps, by, y} {
		w.Advance(p, 4)
	}
	w.DECQ(rows)
	w.JNZ(LabelRef("row"))
	w.VZEROUPPER()
	w.RET()
}
