package lora

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
)

// TestTiles: lora_tiles_mma stores A x of each tile's rows, times both scales, at their places in the tile's window, and zeros beside them and behind the ranks that
// the adapter has. Each problem runs twice: counters must be zero again.
func TestTiles(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		for _, c := range []struct {
			in, targets, bound int
			ranks              []int // of each slot
			rows               []int // the slot of each row; -1: none
		}{
			{64, 1, 16, []int{16}, []int{0}},
			{4096, 3, 16, []int{16, 8, 0}, []int{1, -1, 0, 1, 2, 0, 0}},
			{1056, 2, 48, []int{40, 16, 24}, append(repeated(2, 20), 0, 0, -1, 1)},
			{14336, 1, 64, []int{64, 16}, append(repeated(1, 35), repeated(0, 18)...)},
			{96, 2, 16, []int{8, 8}, append(repeated(0, 1500), repeated(1, 1500)...)}, // enough tiles for whole rows of A in a block
		} {
			name := fmt.Sprintf("in %d, targets %d, ranks %v, %d rows", c.in, c.targets, c.ranks, len(c.rows))
			g.Sub(name, func(g *gputest.GPU) {
				passes := passesOf(c.bound)
				x := g.Random(len(c.rows)*c.in, 1)
				var tiles, rows []int32
				var scales []float32
				for first := 0; first < len(c.rows); first += TileRows {
					window := c.rows[first:min(first+TileRows, len(c.rows))]
					for slot := range c.ranks {
						if !slices.Contains(window, slot) {
							continue
						}
						tiles = append(tiles, int32(slot), int32(len(rows)), 0, 0)
						for i := range window {
							if window[i] == slot {
								tiles[len(tiles)-2]++
								rows, scales = append(rows, int32(first+i)), append(scales, 1-float32((first+i)%8)/16)
							}
						}
					}
				}
				n := len(tiles) / 4
				room := n + 2
				launched := append(slices.Clone(tiles), 0, 0, 0, 0) // one without rows
				p := TilesParams{Params: Params{
					Tiles: Tiles{g.Ints(launched...), g.Ints(rows...), g.F32(scales)}, X: g.BF16(x), H: g.Poisoned(int(HBytes(n+1, c.targets, c.bound))),
					In: int32(c.in), Targets: int32(c.targets), RankBound: int32(c.bound),
				}, Arrived: g.Zeros(ArrivedBytes), Passes: int32(passes), Room: int32(room)}
				size := TileRows * PassRanks
				want := make([]float64, c.targets*passes*room*size)
				for i := range c.targets {
					var table []byte
					for slot, r := range c.ranks {
						a := g.Random(r*c.in, 1/math.Sqrt(float64(c.in)))
						s := Slot{Rank: int32(r), Scale: 0.5 + float32(slot)/4}
						if r > 0 {
							s.A = g.BF16(a)
						}
						table = append(table, EncodeSlot(&s)...)
						for tile := range n {
							if int(tiles[4*tile]) != slot {
								continue
							}
							for _, row := range rows[tiles[4*tile+1] : tiles[4*tile+1]+tiles[4*tile+2]] {
								for j := range r {
									v := 0.0
									for k := range c.in {
										v += float64(x[int(row)*c.in+k]) * float64(a[j*c.in+k])
									}
									want[((i*passes+j/PassRanks)*room+tile)*size+int(row)%TileRows*PassRanks+j%PassRanks] = v * float64(s.Scale) * (1 - float64(row%8)/16)
								}
							}
						}
					}
					p.Slots[i] = g.Bytes(table)
				}
				p.Hidden = g.Zeros(2 * len(want))
				k, err := NewTiles(g.Loader)
				g.Must(err)
				for range 2 {
					for at := 0; at < c.targets*passes; at++ { // what tiles have is poison before
						g.Must(g.Stream.Fill(p.Hidden+driver.Ptr(2*at*room*size), 0x7f, int64(2*n*size)))
					}
					g.Must(k.Launch(g.Stream, n+1, &p))
					g.Near(name, g.ReadBF16(p.Hidden, len(want)), want, 6e-3)
				}
			})
		}
	})
}
