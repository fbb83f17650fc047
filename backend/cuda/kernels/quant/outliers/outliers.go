// Package outliers adds to products of rows in int8 what numbers too large for these come to (LLM.int8).
package outliers

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
)

// Part mirrors OutlierPart of outliers.cu: a matrix that reads the rows, with the products of their other numbers.
type Part struct {
	W, Scale driver.Ptr // [N, K] int8 and [N] float32, what a number of each row of W counts
	Y, Sum   driver.Ptr // [M, N] bf16, the products of the other numbers, and with those of the large ones; they may be one
	N        int64
}

// MostParts is the most matrices of a launch.
const MostParts = 3

// Params mirrors OutlierParams of outliers.cu.
type Params struct {
	X      driver.Ptr // [M, K] bf16
	Part   [MostParts]Part
	Joined driver.Ptr // [M, N] bf16: Fn of the first of two sums times the second, of which Sum is Y and need not stay; or 0

	columns, numbers driver.Ptr

	Parts, Fn, M, K int32
	Threshold       float32 // magnitude from which on numbers are large, above 0
	_               int32
}

const (
	threads = 256
	few     = 8   // rows that are looked through by each block, up to so many
	tile    = 32  // rows of a tile
	piece   = 512 // columns that are looked through at a time
	group   = 64  // tiles of a launch
	// MostColumns is the most numbers of a row of x: a bit of each is in shared memory.
	MostColumns = 1 << 18
)

// Fits reports whether rows of x of k numbers can be read.
func Fits(k int) bool { return k%8 == 0 && k <= MostColumns }

// Kernel is the kernels for one row, for few, and for more: what finds large numbers, and what adds those of a tile, or joins two sums.
type Kernel struct {
	one, few, find, tile, join *driver.Kernel
	scratch                    driver.Ptr
}

// New finds them, for rows of x of k numbers; scratch has Scratch bytes.
func New(l *kernels.Loader, k int, scratch driver.Ptr) (*Kernel, error) {
	all := &Kernel{scratch: scratch}
	for _, one := range []struct {
		name string
		to   **driver.Kernel
		room int
	}{
		{"add_outliers1", &all.one, marks(k)}, {"add_outliers8", &all.few, marks(k)}, {"find_outliers", &all.find, 0},
		{"add_outliers32", &all.tile, 4 * pieces(k)}, {"join_outliers32", &all.join, 4 * pieces(k)},
	} {
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
	if rows <= few {
		return 0
	}
	n := min(tiles(rows), group)
	return listBytes(n, k) + 2*int64(n)*int64(pieces(k))*piece*tile
}

// Launch adds to p.M rows.
func (k *Kernel) Launch(s *driver.Stream, p *Params) error {
	n := *p
	columns := 0
	for i, part := range n.Part[:n.Parts] {
		if i == 0 || n.Joined == 0 {
			columns += (int(part.N) + threads - 1) / threads
		}
	}
	if n.M <= few {
		add := k.few
		if n.M == 1 {
			add = k.one
		}
		return driver.Launch(s, add, driver.Grid{X: columns, Threads: threads, Shared: marks(int(n.K))}, &n)
	}
	add, parts := k.tile, pieces(int(n.K))
	if n.Joined != 0 {
		add = k.join
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
		for i := range n.Part[:n.Parts] {
			part := &n.Part[i]
			part.Y += driver.Ptr(2 * group * tile * int(part.N))
			part.Sum += driver.Ptr(2 * group * tile * int(part.N))
		}
		if n.Joined != 0 {
			n.Joined += driver.Ptr(2 * group * tile * int(n.Part[0].N))
		}
	}
	return nil
}
