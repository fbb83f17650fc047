package gemm

import "fmt"

// Mul is the GEMM: it sets out[r·ld + n] = Σ_k acts[r][k] · w[n][k] for n in [from, to) and r in [actFrom, actTo). out is float32,
// [acts.M][ld]; ld ≥ w.Rows. from is a multiple of NR, and so is to unless it is w.Rows. Quantised weights take
// Q8, floats take Float32 or BFloat16. Ranges may be computed by different goroutines, each
// with its own Scratch. Nothing is allocated. A call that breaks these rules is a bug of the caller's and panics.
func Mul(tier Tier, out []float32, ld int, w *Weights, from, to int, acts *Acts, actFrom, actTo int, s *Scratch) {
	switch {
	case w.Cols != acts.K:
		panic(fmt.Sprintf("gemm: weights of %d columns times activations of %d", w.Cols, acts.K))
	case from%NR != 0 || to%NR != 0 && to != w.Rows || to > w.Rows || actTo > acts.M:
		panic(fmt.Sprintf("gemm: rows [%d, %d) of %d × rows [%d, %d) of %d cannot be multiplied on their own", from, to, w.Rows, actFrom, actTo, acts.M))
	case (acts.tiled > 0 || acts.group > 0) && (actFrom%mr != 0 || actTo%mr != 0 && actTo != acts.M):
		panic(fmt.Sprintf("gemm: rows [%d, %d) of activations in tiles of %d cannot be multiplied on their own", actFrom, actTo, mr))
	case acts.blockMajor() && (actFrom != 0 || actTo != acts.M):
		panic(fmt.Sprintf("gemm: rows [%d, %d) of a batch of %d cannot be multiplied on their own", actFrom, actTo, acts.M))
	case from >= to || actFrom >= actTo:
		return
	}
	_ = out[(actTo-1)*ld+to-1] // the kernels do not check
	p := matmul{kernels: tier.kernels(), out: out, ld: ld, w: w, from: from, to: to, acts: acts, s: s}
	packed := w.pack != nil
	if packed != (acts.Format == Q8) {
		panic(fmt.Sprintf("gemm: %v weights do not take activations of format %d", w.Format, acts.Format))
	}
	most := mcFloat
	if packed {
		most = acts.maxRows()
	} else if acts.BatchInvariant {
		most = mcInvariant
	}
	for pass := evenly(actTo-actFrom, most); actFrom < actTo; actFrom += pass {
		p.actFrom, p.actTo = actFrom, min(actFrom+pass, actTo)
		if packed && acts.group > 0 {
			p.mulGrouped(w.pack)
		} else if packed && p.usesWords(w.pack) {
			p.mulWords(w.pack)
		} else if packed && p.actTo-p.actFrom <= streamRows && p.tileKernel(w.pack) == nil {
			p.mulStream(w.pack)
		} else if packed {
			p.mulQ8(w.pack)
		} else {
			p.mulFloat()
		}
	}
}

// PassRows is how many rows of Q8 Mul computes in one pass over quantised weights: it is as fast in parts of so many.
func (a *Acts) PassRows() int { return evenly(a.M, a.maxRows()) }

func (a *Acts) maxRows() int {
	if a.group > 0 {
		return mcGrouped
	}
	return mc
}

// evenly cuts m rows into as few passes of at most `most` as it can, of whole tiles and about the same size.
func evenly(m, most int) int {
	tiles := (m + mr - 1) / mr
	passes := (tiles*mr + most - 1) / most
	return (tiles + passes - 1) / passes * mr
}

// matmul is one pass of Mul over the weights.
type matmul struct {
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
func (p *matmul) tiles(most int) int { return (p.actTo - p.actFrom + most - 1) / most }

// eachTile cuts the activation rows into as few and as even tiles of at most `most` rows as it can.
func (p *matmul) eachTile(most int, do func(row, rows int)) {
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

// zeroOut clears the sums, where the kernels only add.
func (p *matmul) zeroOut() {
	for row := p.actFrom; row < p.actTo; row++ {
		clear(p.out[row*p.ld+p.from : row*p.ld+p.to])
	}
}

// kPerPass is how much of k one pass over the weights covers, a multiple of step: as much as leaves the activations in the L2
// cache.
func (p *matmul) kPerPass(step, bytesPerK int) int {
	fits := l2Bytes / (bytesPerK * (p.actTo - p.actFrom))
	return max(step, fits/step*step)
}

// outTile is where a tile of NR output features is summed: out itself, or, where the matrix ends before the NR do, a copy that
// storeTile writes back.
func (p *matmul) outTile(panel, row, rows int) (sums *float32, ldBytes int) {
	n := panel * NR
	if n+NR <= p.to {
		return &p.out[row*p.ld+n], 4 * p.ld
	}
	for i := range rows {
		at := (row+i)*p.ld + n
		copy(p.s.tile[i*NR:(i+1)*NR], p.out[at:at+p.to-n])
	}
	return &p.s.tile[0], 4 * NR
}

// storeTile writes a copy that outTile made back to out.
func (p *matmul) storeTile(panel, row, rows int) {
	n := panel * NR
	if n+NR <= p.to {
		return
	}
	for i := range rows {
		at := (row+i)*p.ld + n
		copy(p.out[at:at+p.to-n], p.s.tile[i*NR:])
	}
}
