package multistream

import (
	"fmt"
	"math"
	"testing"
	"unsafe"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
)

func TestMirrors(t *testing.T) {
	size := unsafe.Sizeof(Params{})
	gputest.Mirrors(t, "multistream/multistream", map[string]uintptr{
		"expand_": size, "mix_": size, "add_": size, "mean_": size, "columns_": size, "scale_columns_": size, "threshold_": size, "sums_": size,
	})
}

// row is one row's inputs and parameters in plain Go.
type row struct {
	x, other, coefs, weight []float64
	streams, size, from     int
	by                      float64
}

// inGo are the kernels in float64.
var inGo = map[What]func(r row) []float64{
	Expand: func(r row) []float64 {
		y := append([]float64{}, r.x...)
		for j := range r.streams - 1 {
			other := r.other[j*r.size : (j+1)*r.size]
			scale := math.Sqrt(square(r.x) / max(square(other), r.by))
			for _, v := range other {
				y = append(y, v*scale)
			}
		}
		return y
	},
	Mix: func(r row) []float64 {
		y := append([]float64{}, r.x...)
		for i := range y {
			for s := range r.streams {
				y[i] += r.coefs[i/r.size*r.streams+s] * r.x[s*r.size+i%r.size]
			}
		}
		return y
	},
	Add: func(r row) []float64 {
		y := append([]float64{}, r.x...)
		for i := r.from * r.size; i < len(y); i++ {
			by := 1.0
			if r.coefs != nil {
				by += r.coefs[i/r.size]
			}
			y[i] += by * r.other[i%r.size]
		}
		return y
	},
	Mean: func(r row) []float64 {
		y := make([]float64, r.size)
		for i, v := range r.x {
			y[i%r.size] += v / float64(r.streams)
		}
		return y
	},
	Columns: func(r row) []float64 { return r.x[r.from : r.from+r.size] },
	ScaleColumns: func(r row) []float64 {
		y := append([]float64{}, r.x...)
		for i := range y {
			y[i] *= r.weight[i%len(r.weight)]
		}
		return y
	},
	Threshold: func(r row) []float64 {
		y, mean, squares := make([]float64, len(r.x)), 0.0, 0.0
		for _, v := range r.x {
			mean += v / float64(len(r.x))
		}
		for _, v := range r.x {
			squares += (v - mean) * (v - mean)
		}
		for i, v := range r.x {
			y[i] = max(0, v-mean-r.by*math.Sqrt(squares/float64(len(r.x))))
		}
		return y
	},
}

func square(x []float64) (mean float64) {
	for _, v := range x {
		mean += v * v / float64(len(x))
	}
	return mean
}

// TestAgainstPlainGo computes rows shorter and longer than a block's 256 threads.
func TestAgainstPlainGo(t *testing.T) {
	const rows, streams = 5, 4
	gputest.Run(t, func(g *gputest.GPU) {
		for _, typ := range gputest.Plain {
			for _, size := range []int{33, 256, 700} {
				for what, want := range inGo {
					for _, scaled := range []bool{false, true} {
						width := streams * size
						if what == Expand {
							width = size
						}
						p := Params{Streams: streams, Size: int32(size), Width: int32(width), By: 0.5}
						sizes := map[*driver.Ptr]int{&p.X: width}
						weight := 0
						switch what {
						case Expand:
							sizes[&p.Other] = (streams - 1) * size
						case Mix:
							sizes[&p.Coefs] = streams * streams
						case Add:
							sizes[&p.Other] = size
							if p.From = 1; scaled {
								p.From, sizes[&p.Coefs] = 0, streams
							}
						case Columns:
							p.From = int32(size + 3)
						case ScaleColumns:
							if weight = width; scaled {
								weight = 1
							}
							p.Size = int32(weight)
						}
						inputs := map[*driver.Ptr][]float32{}
						for ptr, n := range sizes {
							inputs[ptr] = g.Random(rows*n, 1)
							*ptr = g.Put(typ, inputs[ptr])
						}
						w := g.Random(max(weight, 1), 1)
						p.Weight = g.Put(gputest.Plain[0], w)
						var expect []float64
						for r := range rows {
							of := func(ptr *driver.Ptr) (x []float64) {
								n := sizes[ptr]
								for _, v := range inputs[ptr][r*n : (r+1)*n] {
									x = append(x, float64(v))
								}
								return x
							}
							one := row{x: of(&p.X), streams: streams, size: size, from: int(p.From), by: float64(p.By)}
							if p.Other != 0 {
								one.other = of(&p.Other)
							}
							if p.Coefs != 0 {
								one.coefs = of(&p.Coefs)
							}
							for _, v := range w {
								one.weight = append(one.weight, float64(v))
							}
							expect = append(expect, want(one)...)
						}
						p.Y = g.Room(typ, len(expect))
						k, err := New(g.Loader, what, typ)
						g.Must(err)
						g.Must(k.Launch(g.Stream, rows, &p))
						name := fmt.Sprintf("%s of %d %s, scaled %v", what, size, typ, scaled)
						g.Near(name, g.Take(name, typ, p.Y, len(expect)), expect, gputest.Precision(typ))
					}
				}
			}
		}
	})
}
