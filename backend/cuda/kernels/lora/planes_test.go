package lora

import (
	"fmt"
	"math"
	"testing"

	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
)

// TestPlanes: lora_planes_mma stores A x of each tile's rows in its slot's plane, times both scales, and nothing else. Each problem runs twice: counters must be
// zero again.
func TestPlanes(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		for _, c := range []struct {
			in, targets, bound, sides int
			ranks                     []int // of each slot
			rows                      []int // the slot of each row; -1: none
		}{
			{64, 1, 16, 1, []int{16}, []int{0}},
			{4096, 3, 16, 1, []int{16, 8, 0}, []int{1, -1, 0, 1, 2, 0, 0}},
			{1056, 2, 40, 2, []int{40, 16, 24}, append(repeated(2, 20), 0, 0, -1, 1)},
			{14336, 1, 64, 1, []int{64, 16}, append(repeated(1, 35), repeated(0, 18)...)},
			{96, 2, 8, 2, []int{8, 8}, append(repeated(0, 1500), repeated(1, 1500)...)}, // enough tiles for whole rows of A in a block
		} {
			name := fmt.Sprintf("in %d, targets %d, sides %d, ranks %v, %d rows", c.in, c.targets, c.sides, c.ranks, len(c.rows))
			g.Sub(name, func(g *gputest.GPU) {
				passes, room := passesOf(c.bound), len(c.rows)+3
				x := g.Random(len(c.rows)*c.in, 1)
				var tiles, rows []int32
				var scales []float32
				for slot := range c.ranks {
					open := -1
					for row, s := range c.rows {
						if s != slot {
							continue
						}
						if open < 0 || tiles[open+2] == TileRows {
							open, tiles = len(tiles), append(tiles, int32(slot), int32(len(rows)), 0, int32(slot))
						}
						tiles[open+2]++
						rows, scales = append(rows, int32(row)), append(scales, 1-float32(row%8)/16)
					}
				}
				n := len(tiles)/4 + 1 // one without rows
				tiles = append(tiles, 0, 0, 0, 0)
				p := PlanesParams{Params: Params{
					Tiles: Tiles{g.Ints(tiles...), g.Ints(rows...), g.F32(scales)}, X: g.BF16(x), H: g.Poisoned(int(HBytes(n, c.targets, c.bound))),
					In: int32(c.in), Targets: int32(c.targets), RankBound: int32(c.bound),
				}, Arrived: g.Zeros(ArrivedBytes), Passes: int32(passes), Rows: int32(room), Sides: int32(c.sides)}
				steps := (c.sides*len(c.ranks)*passes + 3) / 4
				p.Steps = int32(steps)
				want := make([]float64, c.targets/c.sides*steps*room*64)
				for i := range c.targets {
					var table []byte
					for slot, r := range c.ranks {
						a := g.Random(r*c.in, 1/math.Sqrt(float64(c.in)))
						s := Slot{Rank: int32(r), Scale: 0.5 + float32(slot)/4}
						if r > 0 {
							s.A = g.BF16(a)
						}
						table = append(table, EncodeSlot(&s)...)
						for row, of := range c.rows {
							if of != slot {
								continue
							}
							for j := range r {
								v := 0.0
								for k := range c.in {
									v += float64(x[row*c.in+k]) * float64(a[j*c.in+k])
								}
								unit := (slot*passes+j/PassRanks)*c.sides + i%c.sides
								want[((i/c.sides*steps+unit/4)*room+row)*64+unit%4*PassRanks+j%PassRanks] = v * float64(s.Scale) * (1 - float64(row%8)/16)
							}
						}
					}
					p.Slots[i] = g.Bytes(table)
				}
				p.Planes = g.Poisoned(2 * len(want))
				k, err := NewPlanes(g.Loader)
				g.Must(err)
				for range 2 {
					g.Must(k.Clear(g.Stream, p.Planes, int64(2*len(want))))
					g.Must(k.Launch(g.Stream, n, &p))
					g.Near(name, g.ReadBF16(p.Planes, len(want)), want, 6e-3)
				}
			})
		}
	})
}

// repeated is a slot's number n times.
func repeated(slot, n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = slot
	}
	return all
}
