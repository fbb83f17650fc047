package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"

	"github.com/ridge-llm/ridge/tools/asm/emit"
)

// constants are the read-only vectors of one file, written before its functions.
type constants struct {
	mask  map[byte]Mem
	ones  Mem
	magic Mem
	table map[string]Mem
}

func writeConstants(w emit.Width) constants {
	c := constants{mask: map[byte]Mem{}, table: map[string]Mem{}}
	add := func(b byte) {
		if _, ok := c.mask[b]; !ok {
			c.mask[b] = w.FixedBytes(fmt.Sprintf("mask%02x%s", b, w.Suffix()), b)
		}
	}
	for _, f := range layouts {
		for _, b := range f.masks {
			add(b)
		}
		if low := lowOf(f); low != nil && !w.AVX512() && !w.VNNI {
			for _, b := range low.shifted(f).masks {
				add(b)
			}
		}
		if f.table != nil {
			m := w.Constant("table" + f.name + w.Suffix())
			for i := range w.Bytes {
				w.AddDatum(i, U8(f.table[i%16]))
			}
			c.table[f.name] = m
		}
	}
	c.ones = w.Constant("ones" + w.Suffix())
	for i := 0; i < w.Bytes; i += 8 {
		w.AddDatum(i, U64(0x0001000100010001))
	}
	c.magic = w.Constant("magic" + w.Suffix())
	for i := 0; i < w.Bytes; i += 8 {
		w.AddDatum(i, U64(0x4b4000004b400000))
	}
	return c
}

// codes loads the constants of a layout: into registers [first, end) as far as they go; the others stay in memory.
func (c constants) codes(w emit.Width, f layout, first, end int) *codes {
	k := &codes{Width: w, layout: f, mask: map[byte]Op{}, flip: c.mask[0x80], ones: c.ones, magic: c.magic}
	for _, b := range f.masks {
		k.mask[b] = c.mask[b]
		if first < end {
			w.Move(c.mask[b], w.Reg(first))
			k.mask[b] = w.Reg(first)
			first++
		}
	}
	if f.table != nil {
		k.table = c.table[f.name]
		if first < end {
			w.Move(c.table[f.name], w.Reg(first))
			k.table = w.Reg(first)
		}
	}
	return k
}

// registers is how many vector registers there are.
func registers(w emit.Width) int {
	if w.AVX512() {
		return 32
	}
	return 16
}
