package neon

import (
	"fmt"

	"github.com/ridge-llm/ridge/tools/asm/arm"
)

// element is a number type of the cache and how four of them become float32.
type element struct {
	name  string
	bytes int
	load  func(a *arm.Asm, base arm.R, offset int, v arm.V)
}

var elements = []element{
	{"F32", 4, func(a *arm.Asm, base arm.R, offset int, v arm.V) { a.LoadQ(base, offset, v) }},
	{"F16", 2, func(a *arm.Asm, base arm.R, offset int, v arm.V) {
		a.LoadD(base, offset, v)
		a.FromF16(v, v)
	}},
	{"BF16", 2, func(a *arm.Asm, base arm.R, offset int, v arm.V) {
		a.LoadD(base, offset, v)
		a.FromBF16(v, v)
	}},
}

// mostRows × 4 registers of sums, six of a and two of b fill the register file. Four k of converted keys take 137
// instructions for 384 multiply-adds, of which 96 are FMLA and the only ones in vector pipes: Neoverse N1 issues two of those
// and two loads a cycle, V1, V2 and Apple's large cores four and three (see package gemm), so FMLA is what bounds it.
const mostRows = 6

// products write out[m][16 columns] = start + Σ_k a[m][k]·b[k][16 columns] for every number of rows m; k goes over n
// rows, step bytes apart, in each of some blocks; see matmulFunc of package attn, which has the arguments.
func products(a *arm.Asm) {
	for _, e := range elements {
		for rows := 1; rows <= mostRows; rows++ {
			p := product{a, e, rows}
			p.write()
		}
	}
}

type product struct {
	*arm.Asm
	element
	rows int
}

// General registers: those of a's rows are 0 to 5.
const (
	table arm.R = 6 + iota
	pair
	off
	gap
	step
	blocks
	count
	b0
	b1
	next
	left
	_
	_ // 18 belongs to the system
	out
	ld
	start
	scale
)

// ahead is how many entries later in the block table the block is that is prefetched while a block is read.
const ahead = 4

func (p product) sum(m, v int) arm.V { return arm.V(4*m + v) }
func (p product) row(m int) arm.V    { return arm.V(24 + m) }

func (p product) write() {
	name := fmt.Sprintf("matmul%sx%dQ", p.name, p.rows)
	p.Func(name, "func(out *float32, ld int, a *float32, lda int, b **byte, pair, off, gap, step int, blocks, n int, scale *float32, start int)",
		fmt.Sprintf("%s is %d rows of start + Σ a·b over n rows of each of some blocks.", name, p.rows))
	p.begin()
	p.Arg("a", 0)
	p.Arg("lda", left)
	for m := 1; m < p.rows; m++ {
		p.AddR(left, arm.R(m-1), arm.R(m))
	}
	p.Arg("b", table)
	p.Arg("pair", pair)
	p.Arg("off", off)
	p.Arg("gap", gap)
	p.Arg("step", step)
	p.Arg("blocks", blocks)
	p.Arg("n", count)
	p.Label("block")
	p.Op("MOVD (%v), %v", table, b0)
	p.Op("MOVD %d(%v), %v", 8*ahead, table, next)
	p.Op("MOVD (%v)(%v), %v", table, pair, b1)
	p.Op("SUB %v, %v, %v", b0, next, next)
	p.AddR(off, b0, b0)
	p.AddR(off, b1, b1)
	p.AddR(gap, b1, b1)
	p.Mov(count, left)
	p.Down(left, 4)
	p.Branch("BLT", "rest")
	p.Label("four")
	p.steps(4, p.LoadQ)
	p.Down(left, 4)
	p.Branch("BGE", "four")
	p.Label("rest")
	p.Advance(left, 4)
	p.IfZero(left, "next")
	p.Label("one")
	p.steps(1, p.LoadS)
	p.Loop(left, "one")
	p.Label("next")
	p.Advance(table, 8)
	p.Loop(blocks, "block")
	p.eachOut(func(m int) {
		p.StorePair(p.sum(m, 0), p.sum(m, 1), out, 0)
		p.StorePair(p.sum(m, 2), p.sum(m, 3), out, 32)
	})
	p.Ret()
}

// steps multiply n numbers of every row of a with as many rows of b.
func (p product) steps(n int, load func(arm.R, int, arm.V)) {
	for m := range p.rows {
		load(arm.R(m), 0, p.row(m))
		p.Advance(arm.R(m), 4*n)
	}
	for k := range n {
		p.Prefetch(b0, next)
		for v := range 4 {
			b := arm.V(30 + v%2)
			p.load(p.Asm, []arm.R{b0, b1}[v/2], v%2*4*p.bytes, b)
			for m := range p.rows {
				p.FMlaLane(p.sum(m, v), b, p.row(m), k)
			}
		}
		p.AddR(step, b0, b0)
		p.AddR(step, b1, b1)
	}
}

// begin sets the sums: zero (start 0), what out holds (1), or that times the row's scale (2).
func (p product) begin() {
	p.Arg("start", start)
	p.Op("CMP $1, %v", start)
	p.Branch("BGT", "scaled")
	p.Branch("BEQ", "held")
	for m := range p.rows {
		for v := range 4 {
			p.Zero(p.sum(m, v))
		}
	}
	p.Branch("B", "begun")
	p.Label("held")
	load := func(m int) {
		p.LoadPair(out, 0, p.sum(m, 0), p.sum(m, 1))
		p.LoadPair(out, 32, p.sum(m, 2), p.sum(m, 3))
	}
	p.eachOut(load)
	p.Branch("B", "begun")
	p.Label("scaled")
	p.Arg("scale", scale)
	p.eachOut(func(m int) {
		load(m)
		p.LoadS(scale, 4*m, 30)
		for v := range 4 {
			p.FMulLane(p.sum(m, v), p.sum(m, v), 30, 0)
		}
	})
	p.Label("begun")
}

// eachOut walks over the rows of out.
func (p product) eachOut(do func(m int)) {
	p.Arg("out", out)
	p.Arg("ld", ld)
	for m := range p.rows {
		do(m)
		if m+1 < p.rows {
			p.AddR(ld, out, out)
		}
	}
}
