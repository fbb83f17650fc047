package vec

import (
	"math"
	"math/rand/v2"
	"runtime/debug"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ridge-llm/ridge/backend/cpu/gemm"
	"github.com/ridge-llm/ridge/quant"
)

// guarded is memory behind whose last byte none can be touched.
func guarded(t *testing.T, n int) []byte {
	t.Helper()
	page := unix.Getpagesize()
	size := (n + page - 1) / page * page
	all, err := unix.Mmap(-1, 0, size+page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(all) })
	if err := unix.Mprotect(all[size:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	return all[size-n : size]
}

func guardedFloats(t *testing.T, n int) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(&guarded(t, 4*n)[0])), n)
}

// TestExpandBounds: no kernel reads or writes behind a row, which may be the last of a file that is mapped; of every number of blocks, so that all that is left after steps is tried.
func TestExpandBounds(t *testing.T) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	for _, f := range expandedFormats {
		for blocks := 1; blocks <= 9; blocks++ {
			n := blocks * f.Block()
			random, want := expandedRow(t, f, n, uint64(blocks))
			row, got, x, buffer := guarded(t, len(random)), guardedFloats(t, n), guardedFloats(t, n), guardedFloats(t, n)
			copy(row, random)
			r, sum := rand.New(rand.NewPCG(uint64(blocks), 9)), 0.0
			for i := range x {
				x[i] = float32(r.NormFloat64())
				sum += float64(x[i]) * float64(want[i])
			}
			for _, tier := range gemm.Tiers() {
				within(t, tier, f, n, func() {
					For(tier).Expand(f, got, row)
					if at := sameBits(got, want); at >= 0 {
						t.Errorf("%s, %s, %d numbers: number %d is %v instead of %v", tier, f, n, at, got[at], want[at])
					}
					if dot := dotRow(tier, f, x, row, buffer); !(math.Abs(float64(dot)-sum) <= dotError(tier, f, x, want)) {
						t.Errorf("%s, %s, %d numbers: the product is %v instead of %v", tier, f, n, dot, sum)
					}
				})
			}
		}
	}
}

// within reports a fault of do.
func within(t *testing.T, tier gemm.Tier, f quant.Format, n int, do func()) {
	t.Helper()
	defer func() {
		if fault := recover(); fault != nil {
			t.Errorf("%s, %s, %d numbers: %v", tier, f, n, fault)
		}
	}()
	do()
}
