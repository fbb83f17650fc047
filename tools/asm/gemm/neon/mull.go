package neon

import "github.com/ridge-llm/ridge/tools/asm/arm"

// mull is the engine for processors without SDOT: bytes are multiplied to 16 bits, two products are added there (which
// two of at most 128·127 allow), and pairs of those to the words of two sums, whose adjacent lanes are added at the end.
type mull struct{ lanes }

// mullDots writes the kernels of every layout for one and two rows, and for up to three of unpacked codes; and what
// unpacks them.
func mullDots(a *arm.Asm) {
	kernel := func(f layout, rows int) {
		vectors := 2
		if rows == 1 {
			vectors = 4
		}
		d := function(a, f, rows, vectors, "Q")
		e := &mull{lanes{dot: d, floats: arm.V(2 * rows * vectors), acts: arm.V(3 * rows * vectors), apart: 1}}
		e.work = e.acts + arm.V(rows)
		a.Load(a.Vector(sumStart), magic)
		d.write(e)
	}
	for _, f := range layouts {
		for rows := 1; rows <= 2; rows++ {
			kernel(f, rows)
		}
		unpack(a, f, "Q", planes)
	}
	for _, f := range []layout{panel32, panel16} {
		for rows := 1; rows <= 3; rows++ {
			kernel(f, rows)
		}
	}
}

// sumStart is 1.5·2²³ in every other lane.
var sumStart = [16]byte{3: 0x4b, 2: 0x40, 11: 0x4b, 10: 0x40}

func (m *mull) low(a, v int) arm.V { return arm.V(2 * (a*m.vectors + v)) }

// Working registers: activations repeated, two for each row; then codes of two groups, and products.
func (m *mull) repeated(a, i int) arm.V { return m.work + arm.V(2*a+i) }
func (m *mull) codeOf(i int) arm.V      { return m.work + arm.V(2*m.rows+i) }
func (m *mull) product(i int) arm.V     { return m.work + arm.V(2*m.rows+2+i) }

func (m *mull) begin() {
	for i := range 2 * m.rows * m.vectors {
		m.Copy(arm.V(i), magic)
	}
}

func (m *mull) products(sub int) {
	if sub == whole {
		m.half(0)
		m.half(1)
		return
	}
	m.half(sub)
}

// half multiplies 16 k, two groups at a time.
func (m *mull) half(h int) {
	for a := range m.rows {
		m.LoadQ(actRow+arm.R(a), 16*h, m.act(a))
	}
	for j := 4 * h; j < 4*h+4; j += 2 {
		for a := range m.rows {
			m.DupLane(m.repeated(a, 0), m.act(a), j%4)
			m.DupLane(m.repeated(a, 1), m.act(a), j%4+1)
		}
		for v := range m.vectors {
			m.code(j, v, m.codeOf(0), m.product(0))
			m.code(j+1, v, m.codeOf(1), m.product(0))
			for a := range m.rows {
				m.Mul8(m.product(0), m.codeOf(0), m.repeated(a, 0))
				m.Mul8High(m.product(1), m.codeOf(0), m.repeated(a, 0))
				m.Mla8(m.product(0), m.codeOf(1), m.repeated(a, 1))
				m.Mla8High(m.product(1), m.codeOf(1), m.repeated(a, 1))
				m.SumPairs16(m.low(a, v), m.product(0))
				m.SumPairs16(m.low(a, v)+1, m.product(1))
			}
		}
	}
}

func (m *mull) scaled(sub int) {
	m.blockFloats(q8Scale)
	start := m.work + 1
	m.Load(m.Words(floatMagic), start)
	for v := range m.vectors {
		m.LoadQ(scale, scalesAt(sub, v), m.work)
		for a := range m.rows {
			sum := m.low(a, v)
			m.AddPairs32(sum, sum, sum+1)
			m.FSub(sum, sum, start)
			m.FMul(sum, sum, m.work)
			m.FMlaLane(m.float(a, v), sum, m.act(a), 0)
		}
	}
}
