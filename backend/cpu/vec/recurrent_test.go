package vec

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/backend/cpu/gemm"
)

// normal is n numbers with a guard behind them.
func normal(rnd *rand.Rand, n int, by float64) []float32 {
	x := make([]float32, n+1)
	for i := range n {
		x[i] = float32(rnd.NormFloat64() * by)
	}
	x[n] = guard
	return x[:n]
}

// deltaCase is tokens of the delta rule for a state of keys × size.
type deltaCase struct {
	keys, size, tokens int
	s, c, rates, v, y  []float32
}

func newDeltaCase(keys, size, tokens int) deltaCase {
	rnd := rand.New(rand.NewPCG(uint64(keys), uint64(size)))
	root := 1 / math.Sqrt(float64(keys))
	d := deltaCase{keys, size, tokens, normal(rnd, keys*size, 1), normal(rnd, tokens*DeltaRows*keys, root), normal(rnd, tokens, 0.2),
		normal(rnd, tokens*(size+3), 1), normal(rnd, tokens*(size+5), 1)}
	for t := range tokens {
		for i := range keys {
			c := d.c[t*DeltaRows*keys:]
			c[keys+i] = 0.5 + 0.5*rnd.Float32()
			c[i] = c[keys+i] * c[2*keys+i]
		}
		d.rates[t] = float32(math.Abs(float64(d.rates[t])))
	}
	return d
}

// run goes on with a copy of the state, so many tokens at a time, and gives the state and the outputs.
func (d deltaCase) run(o Ops, each int) (s, y []float32) {
	s, y = slices.Clone(d.s), slices.Clone(d.y)
	for t := 0; t < d.tokens; t += each {
		n := min(each, d.tokens-t)
		o.DeltaSteps(s, d.c[t*DeltaRows*d.keys:], d.rates[t:t+n], d.v[t*(d.size+3):], y[t*(d.size+5):], d.keys, d.size+3, d.size+5)
	}
	return s, y
}

// right is what the definition gives in float64.
func (d deltaCase) right() (s, y []float64) {
	s, y = make([]float64, len(d.s)), make([]float64, len(d.y))
	for i, v := range d.s {
		s[i] = float64(v)
	}
	for i, v := range d.y {
		y[i] = float64(v) // what lies between the rows is left alone
	}
	for t := range d.tokens {
		c := d.c[t*DeltaRows*d.keys:]
		for j := range d.size {
			read, got := 0.0, 0.0
			for i := range d.keys {
				read += float64(c[i]) * s[i*d.size+j]
			}
			delta := float64(d.rates[t]) * (float64(d.v[t*(d.size+3)+j]) - read)
			for i := range d.keys {
				p := &s[i*d.size+j]
				*p = float64(c[d.keys+i])**p + float64(c[2*d.keys+i])*delta
				got += *p * float64(c[3*d.keys+i])
			}
			y[t*(d.size+5)+j] = got
		}
	}
	return s, y
}

// TestDeltaSteps: every tier computes what the definition says, of any columns, and the same bits however the tokens are divided.
func TestDeltaSteps(t *testing.T) {
	for _, tier := range gemm.Tiers() {
		o := For(tier)
		for _, size := range []int{1, 7, 16, 24, 40, 63, 64, 65, 96, 128, 144} {
			for _, keys := range []int{1, 16, 40, 128} {
				d := newDeltaCase(keys, size, 5)
				wantS, wantY := d.right()
				s, y := d.run(o, 5)
				what := fmt.Sprintf("%s, %d × %d", tier, keys, size)
				near(t, what+": state", s, wantS)
				near(t, what+": output", y, wantY)
				for _, each := range []int{1, 2, 3} {
					if ss, yy := d.run(o, each); !slices.Equal(s, ss) || !slices.Equal(y, yy) {
						t.Errorf("%s: %d tokens at a time give other bits than all at once", what, each)
					}
				}
			}
		}
	}
}

func near(t *testing.T, what string, got []float32, want []float64) {
	t.Helper()
	for i, v := range got {
		if !(math.Abs(float64(v)-want[i]) <= 1e-5*math.Max(1, math.Abs(want[i]))) {
			t.Fatalf("%s: number %d is %g, %g is right", what, i, v, want[i])
		}
	}
}

// TestStateSteps and the scan: every tier, numbers of rows around the blocks' and of states around the vectors'.
func TestStateSteps(t *testing.T) {
	for _, tier := range gemm.Tiers() {
		o := For(tier)
		for _, rows := range []int{1, 3, 4, 5, 16, 23} {
			for _, n := range []int{1, 5, 8, 15, 16, 17, 40, 128} {
				rnd := rand.New(rand.NewPCG(uint64(rows), uint64(n)))
				h, rates, steps, x := normal(rnd, rows*n, 1), normal(rnd, rows*n, 1), normal(rnd, rows, 0.5), normal(rnd, rows, 1)
				y, in, read := normal(rnd, rows, 1), normal(rnd, n, 1), normal(rnd, n, 1)
				what := fmt.Sprintf("%s, %d × %d", tier, rows, n)
				judge := func(what string, step func(h []float32), decay func(i int) float64, by func(i int) float64, skip float64) {
					state, wantH, wantY := append(slices.Clone(h), guard), make([]float64, rows*n), make([]float64, rows)
					for i := range wantH {
						wantH[i] = decay(i)*float64(h[i]) + by(i/n)*float64(in[i%n])
						wantY[i/n] += wantH[i] * float64(read[i%n])
					}
					for i := range wantY {
						wantY[i] += skip * float64(x[i])
					}
					step(state[:rows*n])
					near(t, what+": state", state[:rows*n], wantH)
					near(t, what+": output", y, wantY)
					if state[rows*n] != guard || y[:rows+1][rows] != guard {
						t.Errorf("%s: written behind the end", what)
					}
				}
				judge(what+" SSD", func(h []float32) { o.StateSteps(h, x, y, in, read, 0.7, 0.3, 1.5) },
					func(int) float64 { return float64(float32(0.7)) }, func(r int) float64 { return float64(float32(0.3)) * float64(x[r]) }, 1.5)
				judge(what+" scan", func(h []float32) { o.ScanSteps(h, rates, steps, x, y, in, read) },
					func(i int) float64 { return math.Exp(float64(steps[i/n]) * float64(rates[i])) }, func(r int) float64 { return float64(x[r]) }, 0)
			}
		}
	}
}

// BenchmarkRecurrent: a token of a head of Qwen3.5 (128 × 128), of Mamba 2 (64 × 128), and of 1,024 numbers of Mamba 1 (× 16). The limit is four
// operations of a multiplier for a vector of the first, and three of the second.
func BenchmarkRecurrent(b *testing.B) {
	for _, tier := range gemm.Tiers() {
		o := For(tier)
		d := newDeltaCase(128, 128, 16)
		for _, tokens := range []int{1, 16} {
			b.Run(fmt.Sprintf("delta/%s/%d tokens", tier, tokens), func(b *testing.B) {
				for b.Loop() {
					o.DeltaSteps(d.s, d.c, d.rates[:tokens], d.v, d.y, 128, 131, 133)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*tokens), "ns/token")
			})
		}
		rnd := rand.New(rand.NewPCG(1, 1))
		h, rates, x, steps, in, read := normal(rnd, 1<<14, 1), normal(rnd, 1<<14, 1), normal(rnd, 1024, 1), normal(rnd, 1024, 0.1), normal(rnd, 128, 1), normal(rnd, 128, 1)
		y := make([]float32, 1024)
		for i, v := range rates {
			rates[i] = -v * v
		}
		for i, v := range steps {
			steps[i] = v * v
		}
		b.Run(fmt.Sprintf("ssd/%s", tier), func(b *testing.B) {
			for b.Loop() {
				o.StateSteps(h[:64*128], x[:64], y, in, read, 0.9, 0.1, 1)
			}
		})
		b.Run(fmt.Sprintf("scan/%s", tier), func(b *testing.B) {
			for b.Loop() {
				o.ScanSteps(h, rates, steps, x, y, in[:16], read)
			}
		})
	}
}
