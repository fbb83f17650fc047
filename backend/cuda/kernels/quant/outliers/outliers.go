// Package outliers adds to products of rows in int8 what numbers too large for these come to (LLM.int8).
package outliers

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
)

// Params mirrors OutlierParams of outliers.cu.
type Params struct {
	X, W, Scale driver.Ptr // [M, K] bf16, [N, K] int8 and [N] float32, what a number of each row of W counts
	Y, Sum      driver.Ptr // [M, N] bf16, the products of the other numbers, and with those of the large ones; they may be one

	columns, numbers driver.Ptr

	M, N, K   int32
	Threshold float32 // magnitude from which on numbers are large, above 0
}

const (
	threads = 256
	few     = 8   // rows that one of the kernels for several takes
	tile    = 32  // rows of a tile
	piece   = 512 // columns that are looked through at a time
	group   = 64  // tiles of a launch
	// MostColumns is the most numbers of a row of x: a bit of each is in shared memory.
	MostColumns = 1 << 18
)

// Fits reports whether rows of x of k numbers can be read.
func Fits(k int) bool { return k%8 == 0 && k <= MostColumns }

// Kernel is the kernels for one row, and for several: what finds large numbers, and what adds those of a few rows or a tile.
type Kernel struct {
	one, find, few, tile *driver.Kernel
	scratch              driver.Ptr
}

// New finds them, for rows of x of k numbers; scratch has Scratch bytes.
func New(l *kernels.Loader, k int, scratch driver.Ptr) (*Kernel, error) {
	all := &Kernel{scratch: scratch}
	for _, one := range []struct {
		name string
		to   **driver.Kernel
		room int
	}{{"add_outliers1", &all.one, marks(k)}, {"find_outliers", &all.find, 0}, {"add_outliers8", &all.few, 4 * pieces(k)}, {"add_outliers32", &all.tile, 4 * pieces(k)}} {
		var err error
		if *one.to, err = l.Kernel("quant/outliers/outliers", one.name, one.room); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// marks is what marks of k columns take in shared memory, in bytes.
func marks(k int) int {
	words := (k + 31) / 32
	return 4 * (words + (words+31)/32)
}

func tiles(rows int) int { return (rows + tile - 1) / tile }
func pieces(k int) int   { return (k + piece - 1) / piece }

// listBytes is what the columns of so many tiles take.
func listBytes(tiles, k int) int64 {
	return (4*int64(tiles)*int64(pieces(k))*(1+piece) + 255) &^ 255
}

// Scratch is the memory for launches of up to so many rows of k numbers: room for all of them to be large, of some rows at a time.
func Scratch(rows, k int) int64 {
	if rows == 1 {
		return 0
	}
	n := min(tiles(rows), group)
	return listBytes(n, k) + 2*int64(n)*int64(pieces(k))*piece*tile
}

// Launch adds to p.M rows.
func (k *Kernel) Launch(s *driver.Stream, p *Params) error {
	n := *p
	columns, parts := (int(n.N)+threads-1)/threads, pieces(int(n.K))
	if n.M == 1 {
		return driver.Launch(s, k.one, driver.Grid{X: columns, Threads: threads, Shared: marks(int(n.K))}, &n)
	}
	add := k.tile
	if n.M <= few {
		add = k.few
	}
	n.columns = k.scratch
	n.numbers = k.scratch + driver.Ptr(listBytes(min(tiles(int(p.M)), group), int(p.K)))
	for done := int32(0); done < p.M; done += group * tile {
		n.M = min(p.M-done, group*tile)
		t := tiles(int(n.M))
		if err := driver.Launch(s, k.find, driver.Grid{X: parts, Y: t, Threads: threads}, &n); err != nil {
			return err
		}
		if err := driver.Launch(s, add, driver.Grid{X: columns, Y: t, Threads: threads, Shared: 4 * parts}, &n); err != nil {
			return err
		}
		n.X += driver.Ptr(2 * group * tile * int(n.K))
		n.Y += driver.Ptr(2 * group * tile * int(n.N))
		n.Sum += driver.Ptr(2 * group * tile * int(n.N))
	}
	return nil
}
