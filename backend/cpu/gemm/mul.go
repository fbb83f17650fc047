package gemm

import "fmt"

// Mul sets out[r·ld + n] = Σ_k acts[r][k] · w[n][k] for n in [from, to) and r in [actFrom, actTo). out is float32,
// [acts.M][ld]; ld ≥ w.Rows. from is a multiple of Granule, and so is to unless it is w.Rows. Quantised weights take
// Lines, floats take Float32 or BFloat16. Ranges may be computed by different goroutines, each
// with its own Scratch. Nothing is allocated. A call that breaks these rules is a bug of the caller's and panics.
func Mul(tier Tier, out []float32, ld int, w *Weights, from, to int, acts *Acts, actFrom, actTo int, s *Scratch) {
	switch {
	case w.Cols != acts.K:
		panic(fmt.Sprintf("gemm: weights of %d columns times activations of %d", w.Cols, acts.K))
	case from%Granule != 0 || to%Granule != 0 && to != w.Rows || to > w.Rows || actTo > acts.M:
		panic(fmt.Sprintf("gemm: rows [%d, %d) of %d × rows [%d, %d) of %d cannot be multiplied on their own", from, to, w.Rows, actFrom, actTo, acts.M))
	case (acts.tiled > 0 || acts.group > 0) && (actFrom%tileRows != 0 || actTo%tileRows != 0 && actTo != acts.M):
		panic(fmt.Sprintf("gemm: rows [%d, %d) of activations in tiles of %d cannot be multiplied on their own", actFrom, actTo, tileRows))
	case acts.beside() && (actFrom != 0 || actTo != acts.M):
		panic(fmt.Sprintf("gemm: rows [%d, %d) of a batch of %d cannot be multiplied on their own", actFrom, actTo, acts.M))
	case from >= to || actFrom >= actTo:
		return
	}
	_ = out[(actTo-1)*ld+to-1] // the kernels do not check
	p := product{kernels: tier.kernels(), out: out, ld: ld, w: w, from: from, to: to, acts: acts, s: s}
	packed := w.pack != nil
	if packed != (acts.Format == Lines) {
		panic(fmt.Sprintf("gemm: %v weights do not take activations of format %d", w.Format, acts.Format))
	}
	most := floatRows
	if packed {
		most = acts.passRows()
	} else if acts.Alone {
		most = aloneRows
	}
	for pass := evenly(actTo-actFrom, most); actFrom < actTo; actFrom += pass {
		p.actFrom, p.actTo = actFrom, min(actFrom+pass, actTo)
		if packed && acts.group > 0 {
			p.wide(w.pack)
		} else if packed && p.actTo-p.actFrom <= streamRows && p.tileKernel(w.pack) == nil {
			p.stream(w.pack)
		} else if packed {
			p.quantised(w.pack)
		} else {
			p.floats()
		}
	}
}

// PassRows is how many rows of Lines Mul takes through quantised weights together: it is as fast in pieces of so many.
func (a *Acts) PassRows() int { return evenly(a.M, a.passRows()) }

func (a *Acts) passRows() int {
	if a.group > 0 {
		return wideRows
	}
	return passRows
}

// evenly cuts m rows into as few passes of at most `most` as it can, of whole tiles and about the same size.
func evenly(m, most int) int {
	tiles := (m + tileRows - 1) / tileRows
	passes := (tiles*tileRows + most - 1) / most
	return (tiles + passes - 1) / passes * tileRows
}

// product is one pass of Mul over the weights.
type product struct {
	*kernels
	out            []float32
	ld             int
	w              *Weights
	from, to       int
	acts           *Acts
	actFrom, actTo int
	s              *Scratch
}

// tiles is how many calls of kernels for at most `most` rows the activations take.
func (p *product) tiles(most int) int { return (p.actTo - p.actFrom + most - 1) / most }

// eachTile cuts the activation rows into as few and as even tiles of at most `most` rows as it can.
func (p *product) eachTile(most int, do func(row, rows int)) {
	count := p.tiles(most)
	rows, larger := (p.actTo-p.actFrom)/count, (p.actTo-p.actFrom)%count
	for row := p.actFrom; row < p.actTo; larger-- {
		n := rows
		if larger > 0 {
			n++
		}
		do(row, n)
		row += n
	}
}

// start clears the sums, where the kernels only add.
func (p *product) start() {
	for row := p.actFrom; row < p.actTo; row++ {
		clear(p.out[row*p.ld+p.from : row*p.ld+p.to])
	}
}

// passK is how much of k one pass over the weights covers, a multiple of step: as much as leaves the activations in
// the second-level cache.
func (p *product) passK(step, bytesPerK int) int {
	fits := passBytes / (bytesPerK * (p.actTo - p.actFrom))
	return max(step, fits/step*step)
}

// target is where a tile of 32 output features is summed: out itself, or, where the matrix ends before the 32 do, a
// copy that finish writes back.
func (p *product) target(unit, row, rows int) (sums *float32, ldBytes int) {
	n := unit * Granule
	if n+Granule <= p.to {
		return &p.out[row*p.ld+n], 4 * p.ld
	}
	for i := range rows {
		at := (row+i)*p.ld + n
		copy(p.s.tile[i*Granule:(i+1)*Granule], p.out[at:at+p.to-n])
	}
	return &p.s.tile[0], 4 * Granule
}

func (p *product) finish(unit, row, rows int) {
	n := unit * Granule
	if n+Granule <= p.to {
		return
	}
	for i := range rows {
		at := (row+i)*p.ld + n
		copy(p.out[at:at+p.to-n], p.s.tile[i*Granule:])
	}
}
