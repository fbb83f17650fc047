package adapter

import (
	"encoding/binary"
	"math"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights/mmap"
)

// finite says where a vector has a number that is none.
func finite(a *Adapter, name string, v []float32) error {
	for i, x := range v {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return a.fail("number %d of %s is %v; the adapter is damaged or its training failed", i, name, x)
		}
	}
	return nil
}

// pieceBytes is how much of a matrix a goroutine takes at a time: what stays in a core's cache.
const pieceBytes = 256 << 10

// piece is part of a matrix.
type piece struct {
	t        *quant.Tensor
	name     string
	dst      func() []byte // of the whole matrix, made when the first piece is copied; nil: it is not copied
	from, to int           // bytes
}

// numbers checks, in so many goroutines, that all matrices have finite numbers alone. With copied set they get memory of their own in the same pass, so
// that the file may be closed.
func (a *Adapter) numbers(copied bool, goroutines int) error {
	var pieces []piece
	for _, name := range a.Names() {
		m := a.Modules[name]
		for _, t := range []struct {
			t    *quant.Tensor
			name string
		}{{&m.A, "lora_A of "}, {&m.B, "lora_B of "}, {&m.Saved, "the saved matrix of "}, {&m.Rows, "the trained rows of "}, {&m.Base, "the base's matrix of "}} {
			n := len(t.t.Data)
			var dst func() []byte
			if copied && n > 0 {
				dst = sync.OnceValue(func() []byte { return make([]byte, n) }) // by the goroutines, since memory is cleared
			}
			for from := 0; from < n; from += pieceBytes {
				pieces = append(pieces, piece{t.t, t.name + name, dst, from, min(from+pieceBytes, n)})
			}
		}
	}
	var work errgroup.Group
	var taken atomic.Int64
	for range min(goroutines, len(pieces)) {
		work.Go(func() (err error) {
			fault := mmap.Reading(func() {
				for i := int(taken.Add(1)); i <= len(pieces) && err == nil; i = int(taken.Add(1)) {
					err = a.copyPiece(&pieces[i-1])
				}
			})
			if fault != nil {
				return a.fail("the file cannot be read: it was cut meanwhile or lies on a disk that fails: %v", fault)
			}
			return err
		})
	}
	if err := work.Wait(); err != nil {
		return err
	}
	for _, p := range pieces {
		if p.dst != nil {
			p.t.Data = p.dst()
		}
	}
	return nil
}

// copyPiece checks and copies one.
func (a *Adapter) copyPiece(p *piece) error {
	src := p.t.Data[p.from:p.to]
	dst := src
	if p.dst != nil {
		dst = p.dst()[p.from:p.to]
	}
	if i := copyFinite(dst, src, p.t.Format, p.dst != nil); i >= 0 {
		at := (p.from + i) / (len(p.t.Data) / (p.t.Rows * p.t.Cols))
		return a.fail("number %d of %s is infinite or not a number; the adapter is damaged or its training failed", at, p.name)
	}
	return nil
}

// copyFinite copies floats, whole multiples of a number, and returns where there is one that is infinite or none, whose exponent has all bits set; -1: there
// is none. Four or two numbers are looked at together: of a number whose exponent has a bit that is not set, those bits reach the lane's highest
// when a number that is one less is added.
func copyFinite(dst, src []byte, f quant.Format, copied bool) int {
	size, exponent, most := 2, uint64(0x7f80_7f80_7f80_7f80), uint64(0x7fff_7fff_7fff_7fff)
	switch f {
	case quant.F32:
		size, exponent, most = 4, 0x7f80_0000_7f80_0000, 0x7fff_ffff_7fff_ffff
	case quant.F16:
		exponent = 0x7c00_7c00_7c00_7c00
	}
	high, all := ^most, ^uint64(0)
	const block = 4 << 10 // stays in the nearest cache between the copy and the look at it
	for from := 0; from < len(src); from += block {
		s := src[from:min(from+block, len(src))]
		if copied {
			s = dst[from : from+copy(dst[from:], s)]
		}
		for ; len(s) >= 32; s = s[32:] {
			all &= (binary.LittleEndian.Uint64(s)&exponent ^ exponent + most) & (binary.LittleEndian.Uint64(s[8:])&exponent ^ exponent + most) &
				(binary.LittleEndian.Uint64(s[16:])&exponent ^ exponent + most) & (binary.LittleEndian.Uint64(s[24:])&exponent ^ exponent + most)
		}
		for ; len(s) > 0; s = s[min(8, len(s)):] {
			var last [8]byte // what is behind is zeros, which are finite
			copy(last[:], s)
			all &= binary.LittleEndian.Uint64(last[:])&exponent ^ exponent + most
		}
	}
	if all&high == high {
		return -1
	}
	for i := 0; i < len(src); i += size {
		bits, of := uint64(binary.LittleEndian.Uint16(src[i:])), exponent&0xffff
		if size == 4 {
			bits, of = uint64(binary.LittleEndian.Uint32(src[i:])), exponent&0xffff_ffff
		}
		if bits&of == of {
			return i
		}
	}
	return -1
}
