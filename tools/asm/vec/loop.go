package main

import (
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ridge-llm/ridge/tools/asm/emit"
)

// loop is a function that goes over arrays of n float32 a vector at a time, and over what is left with masks. Register
// i holds the number of array in[i] when body is called; what body leaves in register 0 goes to the array out. Sums
// over all numbers belong in registers 12 and 13, which start as zero; masked lanes load as zeros.
type loop struct {
	name, signature, doc string
	in                   []string
	out                  string // "" when nothing is stored
	scalars              []scalar
	body                 func(tail bool)       // register 0 = f(registers 0, 1, …)
	result               func()                // from the sums to the lowest lane of register 0; nil when there is none
	pointers             map[string]GPPhysical // filled in by write
}

// scalar is an argument to repeat in every lane of a register.
type scalar struct {
	name     string
	register int
}

var pointerRegisters = []GPPhysical{RDI, RSI, RDX, RBX}

func (l loop) write(w emit.Width) {
	w.Func(l.name+w.Suffix(), l.signature, l.name+w.Suffix()+" "+l.doc)
	l.pointers = map[string]GPPhysical{}
	arrays := l.in
	if l.out != "" {
		arrays = append([]string{l.out}, l.in...)
	}
	for _, name := range arrays {
		if l.pointers[name] == nil {
			l.pointers[name] = w.Arg(name, pointerRegisters[len(l.pointers)])
		}
	}
	for _, s := range l.scalars {
		w.Broadcast(s.name, w.Reg(s.register))
	}
	if l.result != nil {
		w.Zero(w.Reg(12))
		w.Zero(w.Reg(13))
	}
	n := w.Arg("n", RCX)
	w.SUBQ(Imm(uint64(w.Bytes/4)), n)
	w.JL(LabelRef("tail"))
	w.Label("loop")
	for i, name := range l.in {
		w.VMOVUPS(emit.At(l.pointers[name], 0), w.Reg(i))
	}
	l.body(false)
	if l.out != "" {
		w.VMOVUPS(w.Reg(0), emit.At(l.pointers[l.out], 0))
	}
	for _, r := range pointerRegisters[:len(l.pointers)] {
		w.Advance(r, w.Bytes)
	}
	w.SUBQ(Imm(uint64(w.Bytes/4)), n)
	w.JGE(LabelRef("loop"))
	w.Label("tail")
	w.ADDQ(Imm(uint64(w.Bytes/4)), n)
	w.JZ(LabelRef("done"))
	w.TailMask(n)
	for i, name := range l.in {
		w.LoadTail(emit.At(l.pointers[name], 0), w.Reg(i))
	}
	l.body(true)
	if l.out != "" {
		w.StoreTail(w.Reg(0), emit.At(l.pointers[l.out], 0))
	}
	w.Label("done")
	if l.result != nil {
		l.result()
		w.VZEROUPPER()
		w.Store(X0, w.ReturnIndex(0))
	} else {
		w.VZEROUPPER()
	}
	w.RET()
}

// total adds the sums in registers 12 and 13 up.
func total(w emit.Width) func() {
	return func() {
		w.VADDPS(w.Reg(13), w.Reg(12), w.Reg(0))
		w.ReduceLanes(w.VADDPS, 0, 1)
	}
}

// groups writes a loop whose body takes so many of n at once, as long as there are so many; behind it n is what is left, and the flags are those of n.
func groups(w emit.Width, label string, n GPPhysical, many int, body func()) {
	each := Imm(uint64(many))
	w.SUBQ(each, n)
	w.JL(LabelRef(label + "Done"))
	w.Label(label)
	body()
	w.SUBQ(each, n)
	w.JGE(LabelRef(label))
	w.Label(label + "Done")
	w.ADDQ(each, n)
}

// returnSum returns the sum of the lanes of registers 0 to sums - 1; sums is a power of two.
func returnSum(w emit.Width, sums int) {
	for half := sums / 2; half > 0; half /= 2 {
		for i := range half {
			w.VADDPS(w.Reg(i+half), w.Reg(i), w.Reg(i))
		}
	}
	w.ReduceLanes(w.VADDPS, 0, 1)
	w.VZEROUPPER()
	w.Store(X0, w.ReturnIndex(0))
	w.RET()
}
