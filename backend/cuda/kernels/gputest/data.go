package gputest

import (
	"encoding/binary"
	"math"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/quant"
)

// Poisoned is n bytes of device memory full of 0xff: not-a-number as F32 and BF16, so that what a kernel leaves unwritten, or
// should not have read, is seen.
func (g *GPU) Poisoned(n int) driver.Ptr {
	p, err := g.Ctx.Alloc(int64(n))
	g.Must(err)
	g.owned = append(g.owned, p)
	g.Must(g.Stream.Fill(p, 0xff, int64(n)))
	return p
}

// Zeros is n bytes of zeros.
func (g *GPU) Zeros(n int) driver.Ptr {
	p := g.Poisoned(n)
	g.Must(g.Stream.Fill(p, 0, int64(n)))
	return p
}

// put copies b to fresh device memory.
func (g *GPU) put(b []byte) driver.Ptr {
	p := g.Poisoned(len(b))
	g.Must(g.Stream.Upload(p, b))
	g.Must(g.Stream.Synchronize())
	return p
}

// Bytes puts bytes on the device.
func (g *GPU) Bytes(b []byte) driver.Ptr { return g.put(b) }

// F32 puts numbers on the device.
func (g *GPU) F32(x []float32) driver.Ptr {
	b := make([]byte, 4*len(x))
	for i, v := range x {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(v))
	}
	return g.put(b)
}

// BF16 puts numbers on the device as BF16; they should be exact in it.
func (g *GPU) BF16(x []float32) driver.Ptr {
	b := make([]byte, 2*len(x))
	for i, v := range x {
		binary.LittleEndian.PutUint16(b[2*i:], quant.F32ToBF16(v))
	}
	return g.put(b)
}

// Ints puts integers on the device.
func (g *GPU) Ints(x ...int32) driver.Ptr {
	b := make([]byte, 4*len(x))
	for i, v := range x {
		binary.LittleEndian.PutUint32(b[4*i:], uint32(v))
	}
	return g.put(b)
}

// Random is n numbers of about the given size, normal, each exact in BF16.
func (g *GPU) Random(n int, scale float64) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = quant.BF16ToF32(quant.F32ToBF16(float32(g.Rand.NormFloat64() * scale)))
	}
	return x
}

// Noise is n bytes on the device, random bits that are sound BF16 numbers of about ±1, made quickly: for benchmarks, whose
// inputs are large.
func (g *GPU) Noise(n int) driver.Ptr {
	block := make([]byte, min(n, 8<<20))
	for i := 0; i+1 < len(block); i += 2 {
		v := float32(g.Rand.Float64()*2 - 1)
		binary.LittleEndian.PutUint16(block[i:], quant.F32ToBF16(v))
	}
	p := g.Poisoned(n)
	for at := 0; at < n; at += len(block) {
		k := min(len(block), n-at)
		g.Must(g.Stream.Upload(p+driver.Ptr(at), block[:k]))
	}
	g.Must(g.Stream.Synchronize())
	return p
}

// ReadF32 reads n F32 numbers back.
func (g *GPU) ReadF32(p driver.Ptr, n int) []float32 { return g.read(p, n, quant.F32) }

// ReadBF16 reads n BF16 numbers back.
func (g *GPU) ReadBF16(p driver.Ptr, n int) []float32 { return g.read(p, n, quant.BF16) }

// ReadF16 reads n IEEE halves back.
func (g *GPU) ReadF16(p driver.Ptr, n int) []float32 { return g.read(p, n, quant.F16) }

// ReadBytes reads n bytes back.
func (g *GPU) ReadBytes(p driver.Ptr, n int) []byte {
	b := make([]byte, n)
	g.Must(g.Stream.Download(b, p))
	g.Must(g.Stream.Synchronize())
	return b
}

func (g *GPU) read(p driver.Ptr, n int, f quant.Format) []float32 {
	b := make([]byte, f.RowBytes(n))
	g.Must(g.Stream.Download(b, p))
	g.Must(g.Stream.Synchronize())
	x := make([]float32, n)
	quant.Decode(f, x, b)
	return x
}
