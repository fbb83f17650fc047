package packed

import (
	"fmt"
	"math"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
)

// gemmSM90 is a problem bound to the kernels of gemm_sm90.h, one for each width of a tile of x.
type gemmSM90 struct {
	base   gemmParams
	sms    int
	alone  bool // on the GPU, so that blocks may wait for each other
	widths []width
}

// gemmParams mirrors GemmParams of tile_scheduler.h.
type gemmParams struct {
	X                               driver.TensorMap
	Part                            [MaxParts]part
	Partial, Arrived                driver.Ptr
	M, K, Parts, Fn                 int32
	RowTiles, Tiles, StreamK, Gated int32
	TilesEach, OneMore              int32
	Splits, ViaGlobal               int32
	SplitKSums                      driver.Ptr

	Residual, Weight, YWeighted, Squares driver.Ptr
	SquareParts                          int32
	Eps                                  float32
	_                                    [6]uint64 // the struct's size is a multiple of its map's alignment, 64
}

const (
	gemmTile  = 128 // rows of weights in a tile; half of them the gate's in a gated one
	consumers = 256 // threads of a slice: two warpgroups
	gemmRoom  = 224 << 10
)

// MaxTiles is how many zeroed int32 counters launches may use.
const MaxTiles = 1 << 15

// width is the configuration of a block for tiles of so many rows of x, as GemmConfig of tile_scheduler.h has it, and where it is used.
type width struct {
	rows     int
	most     int     // rows that it is for
	slices   int     // of two consumer warpgroups each (sliced-K)
	units    int     // of columns in a step
	splits   bool    // whether clusters may split the k of a tile
	ends     float64 // where they may not: what the stream-K fix-up takes, in steps, measured
	shared   int     // bytes
	kernel   *driver.Kernel
	x        driver.TensorMap
	clusters []int // where it splits: how many of 1, 2, 4 and 8 blocks run at once; see findClusters
}

func widthOf(lt layout, rows int) width {
	v := width{rows: rows, most: rows, slices: 1, units: 2, splits: rows <= 32}
	if v.splits {
		v.slices = 2
		if lt.bytes >= 640 {
			v.units = 1
		}
	}
	switch rows {
	case 64:
		v.ends = 6
	case 128:
		v.ends, v.most = 3.5, 512 // measured: tiles of 256 are split more often
	case 256:
		v.ends, v.units, v.most = 8, 1, math.MaxInt
	}
	lines, sliceSums, mailboxes := min(rows, 32)*(gemmTile*2+16), 2*(v.slices-1)*rows/2*consumers*4, 0
	x, weights := 2*v.units*rows*128, v.units*panelTiles*2*lt.bytes // of a step
	if v.splits {
		mailboxes = 2 * 7 * rows / 2 * 32 * 4
	}
	room := gemmRoom - lines - sliceSums - mailboxes
	xs := min(room/(x+weights), 12) // stages
	ws := xs
	if v.splits {
		xs = 8 / v.units
		if rows < 32 {
			xs = 256 / (rows * v.units)
		}
		ws = (room - xs*x) / weights / v.slices * v.slices
	}
	v.shared = 1024 + xs*x + ws*weights + lines + sliceSums + mailboxes
	return v
}

func newGemmSM90(l *kernels.Loader, lt layout, p Problem, s Scratch) (*gemmSM90, error) {
	w := &gemmSM90{sms: l.SMs(), alone: !l.Context().MPS, base: gemmParams{
		K: int32(p.K), Parts: int32(len(p.Parts)), Fn: p.Fn, Partial: s.Partial, Arrived: s.Arrived, SplitKSums: s.SplitKSums, Squares: s.Squares,
	}}
	tile := gemmTile
	if p.Gated {
		w.base.Gated, tile = 1, gemmTile/2
	}
	for i, one := range p.Parts {
		n := int32((one.N + tile - 1) / tile)
		w.base.Part[i] = part{W: one.W, Bias: one.Bias, Y: one.Y, N: int32(one.N), Tiles: n}
		if i == 0 || !p.Gated {
			w.base.Tiles += n
		}
	}
	for _, rows := range []int{8, 16, 32, 64, 128, 256} {
		v := widthOf(lt, rows)
		var err error
		if v.kernel, err = l.Kernel(lt.module, fmt.Sprint("gemm", rows), v.shared); err != nil {
			return nil, err
		}
		if v.x, err = l.Context().ColumnsMap(p.X, p.Rows, p.K, 2*p.K, rows, v.units*columns); err != nil {
			return nil, err
		}
		w.widths = append(w.widths, v)
	}
	return w, nil
}

// grid is that of a launch with so many clusters of 1 << splits blocks.
func (v *width) grid(clusters, splits int) driver.Grid {
	return driver.Grid{X: clusters << splits, Threads: 128 + v.slices*consumers, Shared: v.shared, Cluster: 1 << splits}
}

// findClusters queries how many clusters run at once, before the first launch: it needs the assembled kernel.
func (v *width) findClusters(sms int) error {
	if v.clusters != nil {
		return nil
	}
	clusters := []int{sms}
	for splits := 1; splits <= 3; splits++ {
		n, err := v.kernel.ClustersAtOnce(v.grid(sms>>splits, splits))
		if err != nil {
			return err
		}
		clusters = append(clusters, n)
	}
	v.clusters = clusters
	return nil
}

func (w *gemmSM90) launch(s *driver.Stream, m int) error { return w.launchOf(s, m, w.base) }

// launchOf launches m rows with parameters that base has and some more.
func (w *gemmSM90) launchOf(s *driver.Stream, m int, p gemmParams) error {
	d, err := w.schedule(m)
	if err != nil {
		return err
	}
	v := &w.widths[d.width]
	p.X, p.M, p.RowTiles = v.x, int32(m), int32((m+v.rows-1)/v.rows)
	p.Tiles *= p.RowTiles
	p.Splits, p.StreamK = int32(d.splits), d.streamK
	p.TilesEach, p.OneMore = p.Tiles/int32(d.clusters), p.Tiles%int32(d.clusters)
	grid := v.grid(d.clusters, d.splits)
	if d.viaGlobal {
		p.ViaGlobal, grid.Cluster = 1, 0
	}
	return driver.Launch(s, v.kernel, grid, &p)
}
