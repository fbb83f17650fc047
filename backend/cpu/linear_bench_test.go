package cpu

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/gemm"
	"github.com/ridge-llm/ridge/backend/cpu/threads"
	"github.com/ridge-llm/ridge/quant"
)

// BenchmarkLinear multiplies as decode steps do: all workers, a barrier after each matmul, and weights that rotate
// through a gigabyte, more than any cache holds. It reports the share of the read bandwidth, or of the integer or float
// peak where that is the tighter limit, and how much of their time workers spend waiting for each other.
func BenchmarkLinear(b *testing.B) {
	for _, f := range []quant.Format{quant.Q4_0, quant.Q8_0, quant.Q4_K, quant.Q6_K, quant.BF16, quant.F16, quant.F32} {
		for _, shape := range [][2]int{{8192, 2048}, {2048, 2048}, {512, 2048}, {2048, 8192}} {
			b.Run(fmt.Sprintf("%v/%d×%d", f, shape[0], shape[1]), func(b *testing.B) {
				d, err := New(Options{})
				if err != nil {
					b.Fatal(err)
				}
				defer d.Close()
				weights, arena := rotation(b, d, f, shape[0], shape[1])
				peaks, err := d.Peaks()
				if err != nil {
					b.Fatal(err)
				}
				defer arena.free()
				for _, m := range []int{1, 2, 4, 8, 16, 32} {
					b.Run(fmt.Sprint(m), func(b *testing.B) { benchmarkLinear(b, d, weights, m, peaks.Int8, peaks.F32, peaks.Read) })
				}
			})
		}
	}
}

// rotation is a gigabyte of matrices with the same contents: codes that are all kinds of bytes, and scales of 1/64.
func rotation(b *testing.B, d *Device, f quant.Format, rows, cols int) ([]*gemm.Weights, *memory) {
	size := f.RowBytes(cols) * int64(rows)
	arena, err := newMemory(1<<30/size*size, 0)
	if err != nil {
		b.Fatal(err)
	}
	whole := uint16s(backend.Buffer{Mem: arena, Len: int64(len(arena.bytes))})
	for i := range whole {
		whole[i] = uint16(i*0x9e3779b1>>16)&0x83ff | 0x2400
	}
	var weights []*gemm.Weights
	for rest := arena.bytes; len(rest) > 0; rest = rest[size:] {
		w, err := gemm.Packed(f, rows, cols, rest[:size])
		if err != nil {
			b.Fatal(err)
		}
		weights = append(weights, &w)
	}
	return weights, arena
}

func benchmarkLinear(b *testing.B, d *Device, weights []*gemm.Weights, m int, int8, f32, read float64) {
	w := weights[0]
	format := gemm.ActFormatOf(d.tier, w.Format)
	acts := gemm.NewActs(format, make([]byte, gemm.ActBytes(format, m, w.Cols)), m, w.Cols)
	if format == gemm.Q8 {
		acts = gemm.TiledActs(d.tier, make([]byte, gemm.ActBytes(format, m, w.Cols)), m, w.Cols)
	}
	x := make([]float32, m*w.Cols)
	for i := range x {
		x[i] = float32(i*2654435761>>16&0xff) - 128
	}
	acts.Fill(d.tier, x, 0, m)
	out := make([]float32, m*w.Rows)
	n := d.pool.N()
	busy, each := make([]time.Duration, n*16), make([]time.Duration, b.N)
	blocks := threads.NewBlockQueue(blocksOf(w, n))
	b.ResetTimer()
	d.pool.run(func(w *worker) {
		for i := range b.N {
			start := time.Now()
			w.acts, w.next = acts, weights[(i+1)%len(weights)]
			w.prefetch(weights[i%len(weights)])
			for from, to := blocks.Next(uint32(i+1), w.id, maxBlocks); from < to; from, to = blocks.Next(uint32(i+1), w.id, maxBlocks) {
				gemm.Mul(d.tier, out, weights[0].Rows, weights[i%len(weights)], from, to, &w.acts, 0, m, w.scratch)
			}
			busy[w.id*16] += time.Since(start)
			w.sync()
			if w.id == 0 {
				each[i] = time.Since(start)
			}
		}
	})
	slices.Sort(each)
	took := each[len(each)/2].Seconds() // a shared machine's means say little
	all := 0.0
	for i := range n {
		all += busy[i*16].Seconds()
	}
	peak := int8
	if format != gemm.Q8 {
		peak = f32
	}
	bytes, flops := float64(w.Format.RowBytes(w.Cols)*int64(w.Rows)), 2*float64(m*w.Rows*w.Cols)
	b.ReportMetric(1e6*took, "µs")
	b.ReportMetric(100*max(bytes/read, flops/peak)/took, "%limit")
	b.ReportMetric(100-100*all/float64(n)/b.Elapsed().Seconds(), "%waiting")
	b.ReportMetric(bytes/took/1e9, "GB/s")
	b.ReportMetric(flops/took/1e9, "Gop/s")
}

// BenchmarkDecoding does so with formats whose codes are dequantised as they are used, as a matmul of a program does.
func BenchmarkDecoding(b *testing.B) {
	const rows, cols = 4096, 4096
	for _, f := range []quant.Format{quant.FP8, quant.FP8_BLOCK, quant.INT8, quant.UINT8, quant.NF4, quant.NVFP4_ROW, quant.BF16_2_4} {
		for _, m := range []int{1, 4, 64} {
			b.Run(fmt.Sprintf("%v/%d", f, m), func(b *testing.B) {
				d, err := New(Options{})
				if err != nil {
					b.Fatal(err)
				}
				defer d.Close()
				peaks, err := d.Peaks()
				if err != nil {
					b.Fatal(err)
				}
				size := f.RowBytes(cols) * rows
				arena, err := newMemory(1<<28/size*size, 0)
				if err != nil {
					b.Fatal(err)
				}
				defer arena.free()
				in, out, panels := make([]float32, m*cols), make([]float32, m*rows), make([]float32, d.pool.N()*gemm.NR*cols)
				for i := range in {
					in[i] = float32(i*2654435761>>16&0xff) - 128
				}
				row := arena.bytes[:f.RowBytes(cols)]
				if err := quant.Encode(f, row, in[:cols]); err != nil {
					b.Fatal(err)
				}
				for rest := arena.bytes[len(row):]; len(rest) > 0; rest = rest[len(row):] {
					copy(rest, row)
				}
				each := make([]time.Duration, b.N)
				b.ResetTimer()
				d.pool.run(func(w *worker) {
					for i := range b.N {
						start := time.Now()
						at := int64(i) * size % int64(len(arena.bytes))
						weight := &matrix{Tensor: quant.Tensor{Format: f, Rows: rows, Cols: cols, Data: arena.bytes[at:][:size]}}
						from, to := w.share(rows, gemm.NR)
						d.multiplyDecoded(w, weight, panels[w.id*gemm.NR*cols:][:gemm.NR*cols], out, in, m, from, to)
						if w.sync(); w.id == 0 {
							each[i] = time.Since(start)
						}
					}
				})
				slices.Sort(each)
				took := each[len(each)/2].Seconds()
				flops := 2 * float64(m*rows*cols)
				b.ReportMetric(100*max(float64(size)/peaks.Read, flops/peaks.F32)/took, "%limit")
				b.ReportMetric(float64(size)/took/1e9, "GB/s")
				b.ReportMetric(flops/took/1e9, "Gop/s")
			})
		}
	}
}
