package main

import (
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ridge-llm/ridge/tools/asm/emit"
)

// delta writes the delta rule for columns of a state: four vectors of them with AVX-512 and two with AVX2, which give the multipliers enough
// sums in flight, and up to one vector.
func delta(w emit.Width) func(*emit.Asm) {
	return func(a *emit.Asm) {
		w.Asm = a
		vectors := 2
		if w.AVX512() {
			vectors = 4
		}
		deltaSteps(w, "deltaWide", vectors, false)
		deltaSteps(w, "deltaNarrow", 1, true)
	}
}

// deltaSteps goes through the columns once a token, and once more before the first: while a row is updated for one token, it is multiplied by what
// the next one reads it with. A sum is over the rows in their order, whichever pass computes it.
func deltaSteps(w emit.Width, name string, vectors int, masked bool) {
	w.Func(name+w.Suffix(), "func(s *float32, stride int, c *float32, keys, tokens int, v *float32, vStride int, y *float32, yStride int, rates *float32, n int)",
		name+w.Suffix()+" is deltaSteps of n columns.")
	if masked {
		w.TailMask(w.Arg("n", RCX))
	}
	s, stride, token, keys, tokens := w.Arg("s", RDI), w.Arg("stride", RSI), w.Arg("c", RDX), w.Arg("keys", RBX), w.Arg("tokens", R8)
	v, y, rates := w.Arg("v", R9), w.Arg("y", R10), w.Arg("rates", R12)
	row, c, three, next, end := RAX, RCX, R13, R11, R15
	w.SHLQ(Imm(2), keys)
	w.LEAQ(emit.Indexed(keys, keys, 2, 0), three)
	load, store := moves(w, masked)
	// Registers of vector i: Sᵀq, δ, the sum for δ, a row; and numbers of a token for a row, in every lane.
	sum, del, read, x := func(i int) VecPhysical { return w.Reg(i) }, func(i int) VecPhysical { return w.Reg(vectors + i) },
		func(i int) VecPhysical { return w.Reg(2*vectors + i) }, func(i int) VecPhysical { return w.Reg(3*vectors + i) }
	r, d, k, q := w.Reg(4*vectors), w.Reg(4*vectors+1), w.Reg(4*vectors+2), w.Reg(4*vectors+3)
	at := func(base GPPhysical, i int) Mem { return emit.At(base, i*w.Bytes) }
	rows := func(label string, body func()) {
		w.MOVQ(s, row)
		w.MOVQ(token, c)
		w.LEAQ(emit.Indexed(token, keys, 1, 0), end)
		w.Label(label)
		body()
		w.ADDQ(stride, row)
		w.ADDQ(Imm(4), c)
		w.CMPQ(c, end)
		w.JNE(LabelRef(label))
	}

	for i := range vectors {
		w.Zero(read(i))
	}
	rows("first", func() {
		w.VBROADCASTSS(emit.At(c, 0), r)
		for i := range vectors {
			load(at(row, i), x(i))
			w.VFMADD231PS(x(i), r, read(i))
		}
	})
	w.Label("token")
	w.VBROADCASTSS(emit.At(rates, 0), r)
	for i := range vectors {
		load(at(v, i), del(i))
		w.VSUBPS(read(i), del(i), del(i))
		w.VMULPS(r, del(i), del(i))
		w.Zero(read(i))
		w.Zero(sum(i))
	}
	w.LEAQ(emit.Indexed(three, keys, 1, 0), next) // to the next token's numbers; the last token's own, for nothing
	w.XORQ(end, end)
	w.CMPQ(tokens, Imm(1))
	w.CMOVQEQ(end, next)
	rows("row", func() {
		w.VBROADCASTSS(emit.Indexed(c, keys, 1, 0), d)
		w.VBROADCASTSS(emit.Indexed(c, keys, 2, 0), k)
		w.VBROADCASTSS(emit.Indexed(c, three, 1, 0), q)
		w.VBROADCASTSS(emit.Indexed(c, next, 1, 0), r)
		for i := range vectors {
			load(at(row, i), x(i))
			w.VMULPS(d, x(i), x(i))
			w.VFMADD231PS(del(i), k, x(i))
			store(x(i), at(row, i))
			w.VFMADD231PS(x(i), q, sum(i))
			w.VFMADD231PS(x(i), r, read(i))
		}
	})
	for i := range vectors {
		store(sum(i), at(y, i))
	}
	w.ADDQ(w.Slot("vStride"), v)
	w.ADDQ(w.Slot("yStride"), y)
	w.LEAQ(emit.Indexed(token, keys, 4, 0), token)
	w.ADDQ(Imm(4), rates)
	w.DECQ(tokens)
	w.JNZ(LabelRef("token"))
	w.VZEROUPPER()
	w.RET()
}

// moves are a vector's load and store, under the mask of the last columns or whole.
func moves(w emit.Width, masked bool) (load func(Mem, VecPhysical), store func(VecPhysical, Mem)) {
	if masked {
		return func(m Mem, r VecPhysical) { w.LoadTail(m, r) }, func(r VecPhysical, m Mem) { w.StoreTail(r, m) }
	}
	return func(m Mem, r VecPhysical) { w.VMOVUPS(m, r) }, func(r VecPhysical, m Mem) { w.VMOVUPS(r, m) }
}
