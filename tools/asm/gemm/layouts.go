package main

import (
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ridge-llm/ridge/tools/asm/emit"
)

// A layout is one way in which weight codes are stored in packed memory. A block is 32 consecutive k of 32 rows, stored as a
// few planes of 128 bytes; byte 4r+i of a plane holds bits of row r and of k ≡ i mod 4.
// Group j, 0 to 7, is k = 4j … 4j+3 of the block: what one VPDPBUSD takes for each row. Every layout is unpacked to
// unsigned bytes with an offset of 128, so that the kernels share one correction, -128 Σ act.
type layout struct {
	name   string
	planes int  // of 128 bytes
	sub16  bool // scales stand for 16 weights, not 32
	// masks are the byte constants the layout uses, loaded before the loop where registers allow.
	masks []byte
	table *[16]byte // the values of 4-bit codes, plus 128
	down  int       // how many bits group moves codes right of where it would else put them, see lowLayout
	// group writes the code bytes of group j into dst. at is the first plane of the vector's rows; tmp is free.
	group func(c *codes, j int, at Mem, dst, tmp VecPhysical)
}

// codes is a layout's set of constants within one kernel.
type codes struct {
	emit.Width
	layout
	mask  map[byte]Op // a register with AVX-512, memory with AVX2
	table Op
	flip  Mem // 0x80 in every byte
	ones  Mem // 1 in every 16-bit word
	magic Mem // 1.5 · 2²³ in every float32
}

// iq4nl and mxfp4 are the values of the two formats with a lookup table, plus 128: the IQ4_NL table of ggml-common.h, and twice
// the E2M1 values of the OCP Microscaling specification 1.0, table 5.
var (
	iq4nl = [16]byte{1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241}
	mxfp4 = [16]byte{128, 129, 130, 131, 132, 134, 136, 140, 128, 127, 126, 125, 124, 122, 120, 116}
)

var layouts = []layout{
	{name: "U8", planes: 8, group: func(c *codes, j int, at Mem, dst, tmp VecPhysical) {
		c.Move(at.Offset(128*j), dst)
	}},
	{name: "S8", planes: 8, sub16: true, group: func(c *codes, j int, at Mem, dst, tmp VecPhysical) {
		c.Move(at.Offset(128*j), dst)
	}},
	{name: "U4", planes: 4, masks: []byte{0xf0}, group: func(c *codes, j int, at Mem, dst, tmp VecPhysical) {
		c.nibble(at, j, 4, 0xf0, dst)
	}},
	{name: "U5", planes: 5, masks: []byte{0x78, 0x80}, group: func(c *codes, j int, at Mem, dst, tmp VecPhysical) {
		c.nibble(at, j, 3, 0x78, dst)
		c.add(at.Offset(128*4), 7-j, 0x80, dst, tmp)
	}},
	{name: "U6", planes: 6, sub16: true, masks: []byte{0x3c, 0xc0}, group: func(c *codes, j int, at Mem, dst, tmp VecPhysical) {
		c.nibble(at, j, 2, 0x3c, dst)
		c.add(at.Offset(128*(4+j/4)), 6-2*(j%4), 0xc0, dst, tmp)
	}},
	{name: "U3", planes: 3, sub16: true, masks: []byte{0x60, 0x80}, group: func(c *codes, j int, at Mem, dst, tmp VecPhysical) {
		c.field(at.Offset(128*(j/4)), 5-2*(j%4), 0x60, dst)
		c.add(at.Offset(128*2), 7-j, 0x80, dst, tmp)
	}},
	{name: "U2", planes: 2, sub16: true, masks: []byte{0xc0}, group: func(c *codes, j int, at Mem, dst, tmp VecPhysical) {
		c.field(at.Offset(128*(j/4)), 6-2*(j%4), 0xc0, dst)
	}},
	{name: "N4", planes: 4, masks: []byte{0x0f}, table: &iq4nl, group: tabled},
	{name: "M4", planes: 4, masks: []byte{0x0f}, table: &mxfp4, group: tabled},
}

// nibble puts the four-bit code of group j at bit `to` of its byte; groups 0 to 3 are the low nibbles of planes 0 to 3,
// groups 4 to 7 the high ones.
func (c *codes) nibble(at Mem, j, to int, mask byte, dst VecPhysical) {
	if j < 4 {
		c.field(at.Offset(128*j), to, mask, dst)
	} else {
		c.field(at.Offset(128*(j-4)), to-4, mask, dst)
	}
}

// tabled looks a 4-bit code up.
func tabled(c *codes, j int, at Mem, dst, tmp VecPhysical) {
	c.nibble(at, j, 0, 0x0f, dst)
	table := c.table
	if _, far := table.(Mem); far {
		c.Move(table, tmp)
		table = tmp
	}
	c.VPSHUFB(dst, table, dst)
}

// field is dst = (plane shifted left by n bits) & mask.
func (c *codes) field(plane Mem, n int, mask byte, dst VecPhysical) {
	n, mask = n-c.down, mask>>c.down
	c.masked(plane, n, mask, dst)
}

// masked is field for codes that are not moved right.
func (c *codes) masked(plane Mem, n int, mask byte, dst VecPhysical) {
	m, near := c.mask[mask].(VecPhysical)
	switch {
	case n == 0 && near:
		c.And(plane, m, dst)
		return
	case n != 0 && c.AVX512():
		c.ShiftFrom(plane, n, dst)
	default:
		c.Move(plane, dst)
		c.Shift(n, dst)
	}
	c.And(c.mask[mask], dst, dst)
}

// add is dst |= (plane shifted left by n bits) & mask; tmp is overwritten.
func (c *codes) add(plane Mem, n int, mask byte, dst, tmp VecPhysical) {
	const orAnd = 0xf8 // the truth table of a | b & c
	n, mask = n-c.down, mask>>c.down
	m, near := c.mask[mask].(VecPhysical)
	switch {
	case n == 0 && near && c.AVX512():
		c.VPTERNLOGD(U8(orAnd), plane, m, dst)
	case n == 0 && c.AVX512():
		c.Move(plane, tmp)
		c.VPTERNLOGD(U8(orAnd), c.mask[mask], tmp, dst)
	case c.AVX512():
		c.ShiftFrom(plane, n, tmp)
		c.VPTERNLOGD(U8(orAnd), c.mask[mask], tmp, dst)
	default:
		c.masked(plane, n, mask, tmp)
		c.Or(tmp, dst, dst)
	}
}
