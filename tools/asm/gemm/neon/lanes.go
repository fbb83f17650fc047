package neon

import "github.com/ridge-llm/ridge/tools/asm/arm"

// lanes are sums whose lanes are rows of weights: float sum (a, v) is activation row a times rows 4v to 4v+3.
type lanes struct {
	*dot
	floats arm.V // first register of the float sums
	acts   arm.V // first register of activations
	apart  int   // registers from one row of activations to the next
	work   arm.V // first of three free registers, of which panels have one
}

func (l *lanes) float(a, v int) arm.V { return l.floats + arm.V(a*l.vectors+v) }
func (l *lanes) act(a int) arm.V      { return l.acts + arm.V(a*l.apart) }
func (l *lanes) width() int           { return 1 }

func (l *lanes) eachRow(do func(a int)) {
	for a := range l.rows {
		do(a)
		if a+1 < l.rows {
			l.AddR(ld, out, out)
		}
	}
}

func (l *lanes) load() {
	l.eachRow(func(a int) {
		for v := range l.vectors {
			l.LoadQ(out, 16*v, l.float(a, v))
		}
	})
}

func (l *lanes) clear() {
	for i := range l.rows * l.vectors {
		l.Zero(l.floats + arm.V(i))
	}
}

func (l *lanes) store() {
	l.eachRow(func(a int) {
		for v := range l.vectors {
			l.StoreQ(l.float(a, v), out, 16*v)
		}
	})
}

// blockFloats loads a float of each row's Q8 block, into the registers of its activations.
func (l *lanes) blockFloats(at int) {
	for a := range l.rows {
		l.LoadS(actRow+arm.R(a), at, l.act(a))
	}
}

func (l *lanes) minima(sub int) {
	l.blockFloats(sumAt(sub))
	for v := range l.vectors {
		l.LoadQ(mins, scalesAt(sub, v), l.work)
		for a := range l.rows {
			l.FMlaLane(l.float(a, v), l.work, l.act(a), 0)
		}
	}
}

// sdot is the engine of SDOT by element: four k of an activation row, a word of its Q8 block, with four rows of weights.
type sdot struct{ lanes }

// vectorsOf says how many vectors of weights go with a number of activation rows: enough sums that the next product
// need not wait for the last, and, with few rows, few passes over the planes.
func vectorsOf(rows int, f layout) int {
	switch {
	case rows == 1:
		return 8
	case rows == 2 || rows == 3 && f.masks == nil:
		return 4
	}
	return 2
}

// sdots writes the kernels of every layout for up to four rows, and for up to six of unpacked codes.
func sdots(a *arm.Asm) {
	kernel := func(f layout, rows int) {
		d := function(a, f, rows, vectorsOf(rows, f), "D")
		e := &sdot{lanes{dot: d, floats: arm.V(rows * d.vectors), acts: arm.V(2 * rows * d.vectors), apart: 1}}
		if f.nibbles() {
			e.apart = 2
		}
		e.work = e.acts + arm.V(rows*e.apart)
		a.Load(a.Words(floatMagic), magic)
		d.write(e)
	}
	for _, f := range layouts {
		for rows := 1; rows <= 4; rows++ {
			kernel(f, rows)
		}
	}
	for _, f := range []layout{panel32, panel16} {
		for rows := 1; rows <= 6; rows++ {
			kernel(f, rows)
		}
	}
}

func (s *sdot) int(a, v int) arm.V { return arm.V(a*s.vectors + v) }

func (s *sdot) begin() {
	for i := range s.rows * s.vectors {
		s.Copy(arm.V(i), magic)
	}
}

func (s *sdot) products(sub int) {
	switch {
	case s.nibbles():
		s.pairs()
	case sub == whole:
		s.half(0)
		s.half(1)
	default:
		s.half(sub)
	}
}

// half multiplies 16 k.
func (s *sdot) half(h int) {
	for a := range s.rows {
		s.LoadQ(actRow+arm.R(a), 16*h, s.act(a))
	}
	for j := 4 * h; j < 4*h+4; j++ {
		for v := range s.vectors {
			s.code(j, v, s.work, s.work+1)
			s.dots(v, s.work, j%4, 0)
		}
	}
}

// pairs multiplies 32 k of layouts whose planes hold groups j and j+4.
func (s *sdot) pairs() {
	for a := range s.rows {
		s.LoadPair(actRow+arm.R(a), 0, s.act(a), s.act(a)+1)
	}
	x, low, tmp := s.work, s.work+1, s.work+2
	for j := range 4 {
		for v := range s.vectors {
			s.codes.load(j, v, x)
			s.group(s.codes, j, v, x, low, tmp)
			s.dots(v, low, j, 0)
			s.group(s.codes, j+4, v, x, x, tmp)
			s.dots(v, x, j, 1)
		}
	}
}

// dots adds the products of a vector of codes with word i of every row's activations.
func (s *sdot) dots(v int, code arm.V, i int, half arm.V) {
	for a := range s.rows {
		s.DotLane(s.int(a, v), code, s.act(a)+half, i)
	}
}

// scaled multiplies with the weights' scale and adds with the activations'. Subtracting 1.5·2²³ is exact.
func (s *sdot) scaled(sub int) {
	s.blockFloats(q8Scale)
	for v := range s.vectors {
		s.LoadQ(scale, scalesAt(sub, v), s.work)
		for a := range s.rows {
			sum := s.int(a, v)
			s.FSub(sum, sum, magic)
			s.FMul(sum, sum, s.work)
			s.FMlaLane(s.float(a, v), sum, s.act(a), 0)
		}
	}
}
