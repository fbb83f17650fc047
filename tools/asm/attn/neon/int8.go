package neon

import (
	"fmt"

	"github.com/ridge-llm/ridge/tools/asm/arm"
)

// An engine multiplies groups of four quantized numbers with bytes, 16 columns of four. Both are signed here: keys, which have
// an offset of 128, are made signed as they are loaded.
type engine struct {
	suffix string
	most   int                           // rows
	group  func(p byteProduct)           // b0 and the rows' registers are where the group is
	sum    func(p byteProduct, m, v int) // makes register 4m + v the whole sums of columns 4v to 4v + 3
	store  func(a *arm.Asm)              // stores four integers of 16 bits, in register 0, as a group
}

// dots is SDOT by element: a group is four upper bytes, then four lower ones, rounded so that these are signed. There are
// sums of either.
var dots = engine{
	suffix: "D", most: 3,
	group: func(p byteProduct) {
		for m := range p.rows {
			p.LoadD(arm.R(m), 0, arm.V(24+m))
		}
		for v := range 4 {
			p.bytes(v, 30)
			for m := range p.rows {
				p.DotLane(arm.V(4*m+v), 30, arm.V(24+m), 0)
				p.DotLane(arm.V(12+4*m+v), 30, arm.V(24+m), 1)
			}
		}
	},
	sum: func(p byteProduct, m, v int) {
		p.Shift32(arm.V(4*m+v), arm.V(4*m+v), 8)
		p.Add32(arm.V(4*m+v), arm.V(4*m+v), arm.V(12+4*m+v))
	},
	store: func(a *arm.Asm) {
		a.RoundUpper16(1, 0)
		a.Lower16(0, 0)
		a.Zip(4, 0, 1, 0)
	},
}

// mulls is for processors without: a group is four words, and every column has four sums.
var mulls = engine{
	suffix: "Q", most: 1,
	group: func(p byteProduct) {
		p.LoadD(0, 0, 24)
		p.Zip(8, 24, 24, 24)
		for v := range 4 {
			p.bytes(v, 30)
			p.Words8(28, 30)
			p.Words8High(29, 30)
			for i, words := range []arm.V{28, 29} {
				p.Mla16(arm.V(4*v+2*i), words, 24)
				p.Mla16High(arm.V(4*v+2*i+1), words, 24)
			}
		}
	},
	sum: func(p byteProduct, m, v int) {
		first := arm.V(4 * v)
		p.AddPairs32(first, first, first+1)
		p.AddPairs32(first+2, first+2, first+3)
		p.AddPairs32(arm.V(v), first, first+2)
	},
	store: func(*arm.Asm) {},
}

// int8Kernels write the matmuls of an int8 cache, and the quantization of Q and P; see int8Kernels of package attn.
func int8Kernels(e engine) func(*arm.Asm) {
	return func(a *arm.Asm) {
		for rows := 1; rows <= e.most; rows++ {
			byteProduct{a, e, rows, true}.write()
			byteProduct{a, e, rows, false}.write()
		}
		round(a, e)
	}
}

type byteProduct struct {
	*arm.Asm
	engine
	rows   int
	scores bool
}

// flip is the register that makes keys signed.
const flip arm.V = 31

// bytes loads vector v of the current group.
func (p byteProduct) bytes(v int, to arm.V) {
	p.LoadQ(b0, 16*v, to)
	if p.scores {
		p.Xor(to, to, flip)
	}
}

// General registers beside those of product: the rows of rounded numbers are 0 to 2.
const (
	bytesLeft = count
	keyTile   = 64 // keys in a row of scores
)

func (p byteProduct) write() {
	if p.scores {
		p.Func(fmt.Sprintf("qkInt8x%d%s", p.rows, p.suffix),
			"func(out *float32, a *float32, b **byte, pair, off, gap, size int, scale *float32, bias *int32, scales int)",
			fmt.Sprintf("is the scores of %d rows of queries. pair is 0, gap 32; bias is not used.", p.rows))
		p.Load(p.Bytes(0x80), flip)
	} else {
		p.Func(fmt.Sprintf("pvInt8x%d%s", p.rows, p.suffix),
			"func(out *float32, ld int, a *float32, b **byte, pair, off, gap, size, blocks int, scale, rescale *float32)",
			fmt.Sprintf("adds values times %d rows of P to rescaled sums. pair is 0, gap 32.", p.rows))
		p.Arg("blocks", blocks)
	}
	p.Arg("a", 0)
	p.Arg("b", table)
	p.Arg("off", off)
	p.Arg("size", step)
	p.Op("LSL $2, %v, %v", step, step)
	between := step // bytes from row to row
	if !p.scores {
		between = gap
		p.Set(4*keyTile, between)
	}
	for m := 1; m < p.rows; m++ {
		p.AddR(between, arm.R(m-1), arm.R(m))
	}
	for i := range 24 {
		p.Zero(arm.V(i))
	}
	p.Label("block")
	p.Op("MOVD (%v), %v", table, b0)
	p.Op("MOVD %d(%v), %v", 8*ahead, table, next)
	p.Op("SUB %v, %v, %v", b0, next, next)
	p.AddR(off, b0, b0)
	if p.scores {
		p.Op("LSR $4, %v, %v", step, bytesLeft)
	} else {
		p.Set(4, bytesLeft)
	}
	p.Label("loop")
	p.Prefetch(b0, next)
	p.group(p)
	for m := range p.rows {
		p.Advance(arm.R(m), 8)
	}
	if p.scores {
		p.Advance(b0, 64)
	} else {
		p.AddR(step, b0, b0)
	}
	p.Loop(bytesLeft, "loop")
	if p.scores {
		p.finishScores()
		return
	}
	p.Advance(table, 8)
	p.Loop(blocks, "block")
	p.finishValues()
}

// finishScores stores the sums times the scales of queries and keys.
func (p byteProduct) finishScores() {
	p.Op("MOVD (%v), %v", table, b0)
	p.AddR(off, b0, b0)
	p.Arg("scales", left)
	p.AddR(left, b0, b0)
	p.Arg("scale", scale)
	p.Arg("out", out)
	for m := range p.rows {
		p.LoadS(scale, 4*m, 24)
		for v := range 4 {
			sum := arm.V(4*m + v)
			p.sum(p, m, v)
			p.ToFloat(sum, sum)
			p.LoadQ(b0, 16*v, 25)
			p.FMulLane(sum, sum, 24, 0)
			p.FMul(sum, sum, 25)
			p.StoreQ(sum, out, 4*keyTile*m+16*v)
		}
	}
	p.Ret()
}

// finishValues adds the sums, times the scale of P, to the rescaled accumulators in out.
func (p byteProduct) finishValues() {
	p.Arg("scale", scale)
	p.Arg("rescale", start)
	p.Arg("out", out)
	p.Arg("ld", ld)
	for m := range p.rows {
		p.LoadS(scale, 4*m, 24)
		p.LoadS(start, 4*m, 25)
		for v := range 4 {
			sum := arm.V(4*m + v)
			p.sum(p, m, v)
			p.ToFloat(sum, sum)
			p.LoadQ(out, 16*v, 26)
			p.FMulLane(26, 26, 25, 0)
			p.FMlaLane(26, sum, 24, 0)
			p.StoreQ(26, out, 16*v)
		}
		p.AddR(ld, out, out)
	}
	p.Ret()
}
