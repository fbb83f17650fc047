package neon

import "github.com/ridge-llm/ridge/tools/asm/arm"

// General registers of the packing kernels.
const (
	packDst arm.R = iota
	dstStep
	subStep
	packSrc
	srcStep
	stride
	packCount
	packRow  // the current row
	packTo   // where its words go in the first block
	packAt   // and in the current block
	packLeft // fours of rows
	packHalf
)

// packs writes the kernels that interleave parts of 32 rows' blocks, each of which becomes planes of one or several blocks of
// 32 k. All have the same arguments: rows lie stride bytes apart at src; a row's n parts lie srcStep bytes apart, and
// go dstStep bytes apart; where a part belongs to several blocks, those are subStep bytes apart. In body, register k
// holds bytes 4k to 4k+3 of the part of four rows. SLI and SRI insert fields without masks.
func packs(a *arm.Asm) {
	p := packer{a}
	p.kernel("packWords", "copies 16 bytes, four planes.", 1, func() {
		for k := range 4 {
			p.put(arm.V(k), k)
		}
	})
	p.kernel("packInt8", "copies 16 signed bytes plus 128, four planes.", 1, func() {
		p.Load(p.Bytes(0x80), 16)
		for k := range 4 {
			p.Xor(arm.V(k), arm.V(k), 16)
			p.put(arm.V(k), k)
		}
	})
	p.kernel("packNibbles", "makes four planes of nibbles of two blocks out of 32 bytes: a block of low halves, one of high.", 2, func() {
		for k := range 4 {
			p.Copy(16, arm.V(k))
			p.InsertLeft(16, arm.V(4+k), 4)
			p.put(16, k)
		}
		p.AddR(subStep, packAt, packAt)
		for k := range 4 {
			p.InsertRight(arm.V(4+k), arm.V(k), 4)
			p.put(arm.V(4+k), k)
		}
	})
	p.kernel("pack2Bit", "makes two planes of two-bit fields of four blocks out of 32 bytes.", 2, func() {
		for block := range 4 {
			for half := range 2 {
				p.gather(block*2, 2, 4*half, 4)
				p.put(16, half)
			}
			p.AddR(subStep, packAt, packAt)
		}
	})
	p.kernel("pack1Bit", "makes a plane of bits of eight blocks out of 32 bytes.", 2, func() {
		for block := range 8 {
			p.gather(block, 1, 0, 8)
			p.put(16, 0)
			p.AddR(subStep, packAt, packAt)
		}
	})
	p.halves()
}

type packer struct{ *arm.Asm }

// put stores a plane of the current block.
func (p packer) put(v arm.V, plane int) { p.StoreQ(v, packAt, 128*plane) }

// gather makes in register 16 a byte of the fields of so many bits, from bit `from` on, of n words from the first on.
func (p packer) gather(from, bits, first, n int) {
	p.Shift(16, arm.V(first), -from)
	for i := 1; i < n; i++ {
		p.Shift(17, arm.V(first+i), -from)
		p.InsertLeft(16, 17, bits*i)
	}
}

// kernel writes one function; body turns the words of four rows (of one or two groups of 16 bytes) into planes.
func (p packer) kernel(name, doc string, groups int, body func()) {
	p.Func(name+"Q", "func(dst *byte, dstStep int, subStep int, src *byte, srcStep int, stride int, n int)", name+"Q "+doc)
	p.arguments()
	p.Arg("subStep", subStep)
	p.Label("loop")
	p.Mov(packSrc, packRow)
	p.Mov(packDst, packTo)
	p.Set(8, packLeft)
	p.Label("rows")
	for i := range arm.V(4) {
		for g := range groups {
			p.LoadQ(packRow, 16*g, 8+4*arm.V(g)+i)
		}
		p.AddR(stride, packRow, packRow)
	}
	for g := range groups {
		p.square(8+4*arm.V(g), 4*arm.V(g))
	}
	p.Mov(packTo, packAt)
	body()
	p.Advance(packTo, 16)
	p.Loop(packLeft, "rows")
	p.next()
}

func (p packer) arguments() {
	for _, arg := range []struct {
		name string
		r    arm.R
	}{{"dst", packDst}, {"dstStep", dstStep}, {"src", packSrc}, {"srcStep", srcStep}, {"stride", stride}, {"n", packCount}} {
		p.Arg(arg.name, arg.r)
	}
}

// next advances to the next part.
func (p packer) next() {
	p.AddR(srcStep, packSrc, packSrc)
	p.AddR(dstStep, packDst, packDst)
	p.Loop(packCount, "loop")
	p.Ret()
}

// square transposes 4 × 4 words: four registers from `from` on to those from `to` on.
func (p packer) square(from, to arm.V) {
	const t arm.V = 16
	p.Zip(4, t, from, from+1)
	p.ZipHigh(4, t+1, from, from+1)
	p.Zip(4, t+2, from+2, from+3)
	p.ZipHigh(4, t+3, from+2, from+3)
	p.Zip(8, to, t, t+2)
	p.ZipHigh(8, to+1, t, t+2)
	p.Zip(8, to+2, t+1, t+3)
	p.ZipHigh(8, to+3, t+1, t+3)
}

// halves writes the kernel that interleaves half floats: two bytes of each row at a time, which is as fast as the codes
// beside them are.
func (p packer) halves() {
	p.Func("packF16Q", "func(dst *byte, dstStep int, src *byte, srcStep int, stride int, n int)",
		"packF16Q copies n half floats, srcStep bytes apart, of each of 32 rows, stride bytes apart, as [n][32], dstStep bytes apart.")
	p.arguments()
	p.Label("loop")
	p.Mov(packSrc, packRow)
	for r := range 32 {
		p.Op("MOVHU (%v), %v", packRow, packHalf)
		p.AddR(stride, packRow, packRow)
		p.Op("MOVH %v, %d(%v)", packHalf, 2*r, packDst)
	}
	p.next()
}
