package slab

import (
	"fmt"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
)

// wide is a problem bound to the kernels of wide.h, one for each width of a tile of x.
type wide struct {
	base   wideParams
	sms    int
	widths []width
}

type width struct {
	rows, shared int
	kernel       *driver.Kernel
	x            driver.TensorMap
}

// wideParams mirrors WideParams of wide.h.
type wideParams struct {
	X                              driver.TensorMap
	Part                           [3]part
	Partial, Arrived               driver.Ptr
	M, K, Parts, Fn                int32
	RowTiles, Tiles, Stream, Gated int32
	_                              [6]uint64 // the struct's size is a multiple of its map's alignment, 64
}

const (
	wideTile    = 128 // rows of weights in a tile; half of them the gate's in a gated one
	wideThreads = 384
)

func newWide(l *kernels.Loader, lay layout, p Problem, partial, arrived driver.Ptr) (*wide, error) {
	w := &wide{sms: l.SMs(), base: wideParams{K: int32(p.K), Parts: int32(len(p.Parts)), Fn: p.Fn, Partial: partial, Arrived: arrived}}
	tile := wideTile
	if p.Gated {
		w.base.Gated, tile = 1, wideTile/2
	}
	for i, one := range p.Parts {
		n := int32((one.N + tile - 1) / tile)
		w.base.Part[i] = part{W: one.W, Bias: one.Bias, Y: one.Y, N: int32(one.N), Tiles: n}
		if i == 0 || !p.Gated {
			w.base.Tiles += n
		}
	}
	for _, rows := range []int{16, 32, 64, 128} {
		one := width{rows: rows, shared: wideShared(lay, rows)}
		var err error
		if one.kernel, err = l.Kernel(lay.kernels, fmt.Sprint("wide", rows), one.shared); err != nil {
			return nil, err
		}
		if one.x, err = l.Context().ColumnsMap(p.X, p.Rows, p.K, 2*p.K, rows, 2*columns); err != nil {
			return nil, err
		}
		w.widths = append(w.widths, one)
	}
	return w, nil
}

// wideShared is the shared memory of a block, in bytes, by the words of wide.h.
func wideShared(lay layout, rows int) int {
	lines := min(rows, 32) * (wideTile*2 + 16)
	stage := (4*rows*128 + 2*slabTiles*2*lay.bytes + 1023) / 1024 * 1024
	return 1024 + min((224<<10-lines)/stage, 12)*stage + lines
}

func (w *wide) launch(s *driver.Stream, m int) error {
	at := 0
	for at < len(w.widths)-1 && m > w.widths[at].rows {
		at++
	}
	v, p := &w.widths[at], w.base
	p.X, p.M, p.RowTiles = v.x, int32(m), int32((m+v.rows-1)/v.rows)
	p.Tiles *= p.RowTiles
	blocks := min(int(p.Tiles), w.sms)
	rounds := (int(p.Tiles) + w.sms - 1) / w.sms
	if float64(p.Tiles) < 0.95*float64(rounds*w.sms) { // so few would work in the last round that cutting tiles, whose pieces go through memory, is worth it
		p.Stream, blocks = 1, min(w.sms, int(p.Tiles)*tileUnits(int(p.K))/2) // each block has a step
	}
	return driver.Launch(s, v.kernel, driver.Grid{X: blocks, Threads: wideThreads, Shared: v.shared}, &p)
}
