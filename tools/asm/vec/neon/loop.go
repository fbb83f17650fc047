package neon

import "github.com/ridge-llm/ridge/tools/asm/arm"

// loop is a function that goes over arrays of n float32 four at a time, and over what is left one by one. Register i
// holds numbers of array in[i] when body is called; what body leaves in register 0 goes to the array out. Sums over all
// numbers belong in registers 12 and 13, which start as zero; single numbers come with zeros in the other lanes.
type loop struct {
	name, signature, doc string
	in                   []string
	out                  string // "" when nothing is stored
	scalars              []scalar
	body                 func(single bool) // register 0 = f(registers 0, 1, …)
	sums                 bool              // the sum of registers 12 and 13 is the result
}

// scalar is an argument to repeat in every lane of a register.
type scalar struct {
	name     string
	register arm.V
}

const counter arm.R = 8

func (l loop) write(a *arm.Asm) {
	a.Func(l.name+"Q", l.signature, l.name+"Q "+l.doc)
	pointers := map[string]arm.R{}
	arrays := l.in
	if l.out != "" {
		arrays = append([]string{l.out}, l.in...)
	}
	for _, name := range arrays {
		if _, known := pointers[name]; !known {
			pointers[name] = a.Arg(name, arm.R(len(pointers)))
		}
	}
	for _, s := range l.scalars {
		a.ArgFloat(s.name, s.register)
	}
	if l.sums {
		a.Zero(12)
		a.Zero(13)
	}
	step := func(size int, load func(arm.R, int, arm.V), store func(arm.V, arm.R, int)) {
		for i, name := range l.in {
			load(pointers[name], 0, arm.V(i))
		}
		l.body(size == 4)
		if l.out != "" {
			store(0, pointers[l.out], 0)
		}
		for i := range len(pointers) {
			a.Advance(arm.R(i), size)
		}
	}
	n := a.Arg("n", counter)
	a.Down(n, 4)
	a.Branch("BLT", "rest")
	a.Label("four")
	step(16, a.LoadQ, a.StoreQ)
	a.Down(n, 4)
	a.Branch("BGE", "four")
	a.Label("rest")
	a.Advance(n, 4)
	a.IfZero(n, "done")
	a.Label("one")
	step(4, a.LoadS, a.StoreS)
	a.Loop(n, "one")
	a.Label("done")
	if !l.sums {
		a.Ret()
		return
	}
	a.FAdd(0, 12, 13)
	returnSum(a)
}

// groups writes a loop whose body takes so many of n at once, as long as there are so many; behind it n is what is left.
func groups(a *arm.Asm, label string, n arm.R, many int, body func()) {
	a.Down(n, many)
	a.Branch("BLT", label+"Done")
	a.Label(label)
	body()
	a.Down(n, many)
	a.Branch("BGE", label)
	a.Label(label + "Done")
	a.Advance(n, many)
}

// returnSums is returnSum of registers 0 to sums - 1; sums is a power of two.
func returnSums(a *arm.Asm, sums int) {
	for half := sums / 2; half > 0; half /= 2 {
		for i := range half {
			a.FAdd(arm.V(i), arm.V(i), arm.V(i+half))
		}
	}
	returnSum(a)
}

// returnSum returns the sum of register 0's lanes.
func returnSum(a *arm.Asm) {
	a.FAddPairs(0, 0, 0)
	a.FAddPairs(0, 0, 0)
	a.Return(0)
}
