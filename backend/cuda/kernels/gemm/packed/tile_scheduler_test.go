package packed

import (
	"testing"

	"github.com/ridge-llm/ridge/quant"
)

// TestSplit divides the layers of Llama-3.1-8B over 132 multiprocessors, of whose clusters of four and eight fewer run at once than there would be room for.
func TestSplit(t *testing.T) {
	v := width{rows: 16, units: 2, splits: true, clusters: []int{132, 66, 30, 15}}
	for _, c := range []struct {
		name             string
		tiles, steps     int
		clusters, splits int
	}{
		{"q, k and v", 48, 16, 48, 1},
		{"o", 32, 16, 32, 1},
		{"gate and up", 224, 16, 132, 0},
		{"down", 32, 56, 15, 3},
		{"head", 1002, 16, 132, 0},
		{"one tile of one step", 1, 1, 1, 0},
		{"three steps, fewer than eight blocks", 15, 3, 15, 1},
	} {
		clusters, splits, _ := v.split(c.tiles, c.steps, 0)
		if clusters != c.clusters || splits != c.splits {
			t.Errorf("%s: %d tiles of %d steps went to %d clusters of %d blocks; want %d of %d", c.name, c.tiles, c.steps, clusters, 1<<splits, c.clusters, 1<<c.splits)
		}
	}
	for _, c := range []struct {
		name             string
		tiles, steps     int
		clusters, splits int
		viaGlobal        bool
	}{{"o", 32, 16, 32, 1, false}, {"down", 32, 56, 32, 2, true}, {"more tiles than four blocks each have room for", 34, 56, 15, 3, false}} {
		if clusters, splits, viaGlobal := v.split(c.tiles, c.steps, 132); clusters != c.clusters || splits != c.splits || viaGlobal != c.viaGlobal {
			t.Errorf("%s: went to %d times %d blocks, via global memory %v; want %d times %d, %v", c.name, clusters, 1<<splits, viaGlobal, c.clusters, 1<<c.splits, c.viaGlobal)
		}
	}
	v.clusters = []int{132, 66, 32, 16} // as other chips have them
	if clusters, splits, _ := v.split(32, 56, 0); clusters != 32 || splits != 2 {
		t.Errorf("down went to %d clusters of %d blocks where 32 of 4 run at once", clusters, 1<<splits)
	}
}

// TestSchedule has whole tiles where the last wave is full enough, and stream-K where not.
func TestSchedule(t *testing.T) {
	w := gemmSM90{sms: 132, base: gemmParams{Tiles: 224, K: 4096}}
	for _, rows := range []int{64, 128, 256} {
		w.widths = append(w.widths, widthOf(layouts[quant.Q4_0], rows))
	}
	for _, c := range []struct {
		m, rows, clusters int
		streamK           int32
	}{{40, 64, 132, 0}, {128, 128, 132, 1}, {512, 128, 132, 0}, {513, 256, 132, 1}, {1024, 256, 132, 0}} {
		if d, err := w.schedule(c.m); err != nil || w.widths[d.width].rows != c.rows || d.clusters != c.clusters || d.streamK != c.streamK || d.splits != 0 {
			t.Errorf("%d rows: tiles of %d on %d blocks, stream-K %d; want %d, %d, %d", c.m, w.widths[d.width].rows, d.clusters, d.streamK, c.rows, c.clusters, c.streamK)
		}
	}
}
