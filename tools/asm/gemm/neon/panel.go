package neon

import (
	"fmt"

	"github.com/ridge-llm/ridge/tools/asm/arm"
)

// panels writes the float kernels over a panel of weights, [n][32 rows] of words 128 bytes a step: each step multiplies
// one float32 (or a pair of bf16) of every activation row with that of 32 rows of weights. Sums are 6 rows × 16 features.
func panels(a *arm.Asm) {
	for rows := 1; rows <= 6; rows++ {
		p := panel{a, rows}
		p.f32()
	}
	for rows := 1; rows <= 6; rows++ {
		panel{a, rows}.bf16()
	}
}

type panel struct {
	*arm.Asm
	rows int
}

// panelVectors are the registers of weights at a time, of the eight that 32 rows take.
const panelVectors = 4

// Vector registers beside 24 sums: activations of each row, and two of weights, alternating.
const (
	panelActs    arm.V = 24
	panelWeights arm.V = 30
)

// step is the distance of steps of a panel, in bytes.
const step = 128

// function writes a kernel whose steps are done four at a time by four, and one at a time by one.
func (p panel) function(kind string, load, clear, store, four, one func()) {
	name := fmt.Sprintf("panel%sx%dQ", kind, p.rows)
	p.Func(name, "func(out *float32, ld int, fresh bool, w *byte, wStep int, act *byte, stride int, actStep int, n int, ahead uintptr, aheadStep int)",
		fmt.Sprintf("%s adds the products of %d rows of activations with n steps of a panel to out, or sets out to them. wStep is 128, actStep 4.", name, p.rows))
	p.Set(0, column)
	p.Label("group")
	p.Arg("out", out)
	p.Arg("ld", ld)
	p.Arg("w", weights)
	p.Arg("n", count)
	p.AddR(column, out, out)
	if p.rows == panelRows {
		nextOut(p.Asm)
	}
	p.AddR(column, weights, weights)
	p.Arg("act", actRow)
	p.Arg("stride", temporary)
	for a := 1; a < p.rows; a++ {
		p.AddR(temporary, actRow+arm.R(a-1), actRow+arm.R(a))
	}
	p.Arg("fresh", temporary)
	p.IfZero(temporary, "held")
	clear()
	p.Branch("B", "start")
	p.Label("held")
	load()
	p.Label("start")
	p.Down(count, 4)
	p.Branch("BLT", "rest")
	p.Label("loop")
	four()
	p.Advance(weights, 4*step)
	p.Down(count, 4)
	p.Branch("BGE", "loop")
	p.Label("rest")
	p.Advance(count, 4)
	p.IfZero(count, "done")
	p.Label("one")
	one()
	p.Advance(weights, step)
	p.Loop(count, "one")
	p.Label("done")
	p.Arg("out", out)
	p.AddR(column, out, out)
	store()
	p.Advance(column, 16*panelVectors)
	p.Op("CMP $128, %v", column)
	p.Branch("BLT", "group")
	p.Ret()
}

// acts loads so many bytes of every row of activations.
func (p panel) acts(size int, load func(arm.R, int, arm.V)) {
	for a := range p.rows {
		load(actRow+arm.R(a), 0, panelActs+arm.V(a))
		p.Advance(actRow+arm.R(a), size)
	}
}

// f32 multiplies by element.
func (p panel) f32() {
	l := &lanes{dot: &dot{codes: &codes{Asm: p.Asm}, rows: p.rows, vectors: panelVectors}}
	steps := func(n int) {
		for k := range n {
			for v := range panelVectors {
				w := panelWeights + arm.V(v%2)
				p.LoadQ(weights, step*k+16*v, w)
				for a := range p.rows {
					p.FMlaLane(l.float(a, v), w, panelActs+arm.V(a), k)
				}
			}
		}
	}
	p.function("F32", l.load, l.clear, l.store, func() {
		p.acts(16, p.LoadQ)
		steps(4)
	}, func() {
		p.acts(4, p.LoadS)
		steps(1)
	})
}

// bf16 multiplies pairs of activation rows with pairs of weights' rows, two steps at a time: their words are four k of a
// row, which ZIP brings together. A single step is two of which the second is zeros.
func (p panel) bf16() {
	m := &mmla{dot: &dot{codes: &codes{Asm: p.Asm}, rows: p.rows, vectors: panelVectors}, pairs: (p.rows + 1) / 2, acts: panelActs}
	const second, x, y, both arm.V = panelActs + 3, panelActs + 4, panelActs + 5, panelActs + 6
	acts := func(size int, load func(arm.R, int, arm.V)) {
		for pair := range m.pairs {
			a, b := m.rowsOf(pair)
			load(a, 0, panelActs+arm.V(pair))
			load(b, 0, second)
			p.Zip(8, panelActs+arm.V(pair), panelActs+arm.V(pair), second)
		}
		for a := range p.rows {
			p.Advance(actRow+arm.R(a), size)
		}
	}
	products := func(at, steps int) {
		for v := range panelVectors {
			p.LoadQ(weights, at+16*v, x)
			if steps == 2 {
				p.LoadQ(weights, at+step+16*v, y)
			} else {
				p.Zero(y)
			}
			p.Zip(4, both, x, y)
			p.ZipHigh(4, x, x, y)
			for pair := range m.pairs {
				p.MatMulBF16(m.float(pair, 2*v), panelActs+arm.V(pair), both)
				p.MatMulBF16(m.float(pair, 2*v+1), panelActs+arm.V(pair), x)
			}
		}
	}
	p.function("BF16", m.load, m.clear, m.store, func() {
		for half := range 2 {
			acts(8, p.LoadD)
			products(2*step*half, 2)
		}
	}, func() {
		acts(4, p.LoadS)
		products(0, 1)
	})
}
