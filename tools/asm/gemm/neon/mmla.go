package neon

import "github.com/ridge-llm/ridge/tools/asm/arm"

// mmla is the engine of SMMLA, for unpacked codes: a sum is two rows of activations × two of weights, [a·w a·w' b·w b·w'],
// and a product takes eight k. Packed codes would need a permutation for each product to lie so, and with few rows of
// activations that costs what SMMLA saves: those are left to SDOT.
type mmla struct {
	*dot
	pairs  int   // of activation rows; the last may be a row twice
	floats arm.V // first register of the float sums
	acts   arm.V // two registers for each pair
	work   arm.V
}

func mmlaDots(a *arm.Asm) {
	for _, f := range layouts {
		unpack(a, f, "M", rowPairs)
	}
	for _, f := range []layout{panel32, panel16} {
		for rows := 1; rows <= 6; rows++ {
			pairs, vectors := (rows+1)/2, 2
			if pairs == 1 {
				vectors = 4
			}
			d := function(a, f, rows, vectors, "M")
			e := &mmla{dot: d, pairs: pairs}
			e.floats, e.acts = e.sums(), 2*e.sums()
			e.work = e.acts + arm.V(2*pairs)
			a.Load(a.Words(floatMagic), magic)
			d.write(e)
		}
	}
}

// sums is how many there are of either kind.
func (m *mmla) sums() arm.V { return arm.V(2 * m.pairs * m.vectors) }

// int is the integer sum of a pair of activation rows and a pair of weights' rows.
func (m *mmla) int(p, c int) arm.V   { return arm.V(2*p*m.vectors + c) }
func (m *mmla) float(p, c int) arm.V { return m.floats + m.int(p, c) }
func (m *mmla) act(p int) arm.V      { return m.acts + arm.V(2*p) }
func (m *mmla) width() int           { return 2 }

// rowsOf are the pointers to the two activation rows of a pair.
func (m *mmla) rowsOf(p int) (a, b arm.R) {
	return actRow + arm.R(2*p), actRow + arm.R(min(2*p+1, m.rows-1))
}

// eachPair walks over out; second points at the second row of the pair.
func (m *mmla) eachPair(do func(p int, second arm.R)) {
	for p := range m.pairs {
		second := out
		if 2*p+1 < m.rows {
			m.AddR(ld, out, temporary)
			second = temporary
		}
		do(p, second)
		if p+1 < m.pairs {
			m.AddR(ld, temporary, out)
		}
	}
}

func (m *mmla) load() {
	m.eachPair(func(p int, second arm.R) {
		for v := range m.vectors {
			m.LoadQ(out, 16*v, m.acts)
			m.LoadQ(second, 16*v, m.acts+1)
			m.Zip(8, m.float(p, 2*v), m.acts, m.acts+1)
			m.ZipHigh(8, m.float(p, 2*v+1), m.acts, m.acts+1)
		}
	})
}

func (m *mmla) clear() {
	for i := range m.sums() {
		m.Zero(m.floats + i)
	}
}

func (m *mmla) store() {
	m.eachPair(func(p int, second arm.R) {
		for v := range m.vectors {
			low, high := m.float(p, 2*v), m.float(p, 2*v+1)
			m.Zip(8, m.acts, low, high)
			m.StoreQ(m.acts, out, 16*v)
			if second != out {
				m.ZipHigh(8, m.acts, low, high)
				m.StoreQ(m.acts, second, 16*v)
			}
		}
	})
}

func (m *mmla) begin() {
	for i := range m.sums() {
		m.Copy(i, magic)
	}
}

func (m *mmla) products(sub int) {
	if sub == whole {
		m.half(0)
		m.half(1)
		return
	}
	m.half(sub)
}

// half multiplies 16 k, eight at a time.
func (m *mmla) half(h int) {
	for p := range m.pairs {
		a, b := m.rowsOf(p)
		m.LoadQ(a, 16*h, m.work)
		m.LoadQ(b, 16*h, m.act(p)+1)
		m.Zip(8, m.act(p), m.work, m.act(p)+1)
		m.ZipHigh(8, m.act(p)+1, m.work, m.act(p)+1)
	}
	for i := range 2 {
		for c := range 2 * m.vectors {
			m.LoadQ(weights, 256*(2*h+i)+16*c, m.work)
			for p := range m.pairs {
				m.MatMul8(m.int(p, c), m.act(p)+arm.V(i), m.work)
			}
		}
	}
}

// blockFloats makes [a a b b] of a float of the Q8 blocks of each pair, in the registers of its activations.
func (m *mmla) blockFloats(at int) {
	for p := range m.pairs {
		a, b := m.rowsOf(p)
		x := m.act(p)
		m.LoadS(a, at, x)
		m.LoadS(b, at, x+1)
		m.DupLane(x, x, 0)
		m.DupLane(x+1, x+1, 0)
		m.Zip(8, x, x, x+1)
	}
}

// eachColumn loads floats of the weights' rows and repeats those of each pair, [w w' w w'].
func (m *mmla) eachColumn(base arm.R, sub int, do func(c int, w arm.V)) {
	for v := range m.vectors {
		first, second := m.acts+1, m.work
		m.LoadQ(base, scalesAt(sub, v), second)
		m.Zip(8, first, second, second)
		m.ZipHigh(8, second, second, second)
		do(2*v, first)
		do(2*v+1, second)
	}
}

func (m *mmla) scaled(sub int) {
	m.blockFloats(q8Scale)
	m.eachColumn(scale, sub, func(c int, w arm.V) {
		for p := range m.pairs {
			sum := m.int(p, c)
			m.FSub(sum, sum, magic)
			m.FMul(sum, sum, w)
			m.FMla(m.float(p, c), sum, m.act(p))
		}
	})
}

func (m *mmla) minima(sub int) {
	m.blockFloats(sumAt(sub))
	m.eachColumn(mins, sub, func(c int, w arm.V) {
		for p := range m.pairs {
			m.FMla(m.float(p, c), w, m.act(p))
		}
	})
}
