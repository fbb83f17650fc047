package emit

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// TailMask prepares LoadTail and StoreTail for the n < lanes numbers that are left at the end of an array: K1 with
// AVX-512, register 14 with AVX2. It uses RCX and R11; n may be RCX.
func (w Width) TailMask(n reg.GPPhysical) {
	if w.AVX512() {
		if n != reg.RCX {
			w.MOVQ(n, reg.RCX)
		}
		w.MOVQ(operand.U32(1), reg.R11)
		w.SHLQ(reg.CL, reg.R11)
		w.DECQ(reg.R11)
		w.KMOVW(reg.R11.As32(), reg.K1)
		return
	}
	table := w.tailTable()
	w.LEAQ(table, reg.R11)
	w.SHLQ(operand.U8(2), n)
	w.SUBQ(n, reg.R11)
	w.SHRQ(operand.U8(2), n)
	w.VMOVDQU(At(reg.R11, w.Bytes), w.Reg(14))
}

// tailTable is a vector of ones and one of zeros: a window that starts n words before the zeros masks n words.
func (w Width) tailTable() operand.Mem {
	if m, ok := w.constants["tail"]; ok {
		return m
	}
	m := w.Constant("tail")
	for i := 0; i < w.Bytes; i += 8 {
		w.AddDatum(i, operand.U64(^uint64(0)))
	}
	for i := w.Bytes; i < 2*w.Bytes; i += 8 {
		w.AddDatum(i, operand.U64(0))
	}
	w.constants["tail"] = m
	return m
}

// LoadTail loads the masked lanes of m, and zeros in the others.
func (w Width) LoadTail(m operand.Mem, r reg.VecPhysical) {
	if w.AVX512() {
		w.VMOVUPS_Z(m, reg.K1, r)
	} else {
		w.VMASKMOVPS(m, w.Reg(14), r)
	}
}

// StoreTail stores the masked lanes.
func (w Width) StoreTail(r reg.VecPhysical, m operand.Mem) {
	if w.AVX512() {
		w.VMOVUPS(r, reg.K1, m)
	} else {
		w.VMASKMOVPS(r, w.Reg(14), m)
	}
}

// Slot is where an argument lies in memory.
func (w Width) Slot(name string) operand.Mem {
	c, err := w.Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return c.Addr
}

// Broadcast puts a scalar argument in every lane.
func (w Width) Broadcast(name string, r reg.VecPhysical) { w.VBROADCASTSS(w.Slot(name), r) }
