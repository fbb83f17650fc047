package cuda

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	prefillsm90 "github.com/ridge-llm/ridge/backend/cuda/kernels/attention/prefill_sm90"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/testkit"
)

// TestBucket: sequences are rounded up by an eighth at most, to few numbers.
func TestBucket(t *testing.T) {
	last, different := 0, 0
	for n := 1; n <= maxRecorded; n++ {
		b := bucket(n)
		if b < n || b < last || 8*b > 9*n+7 || bucket(b) != b || n <= 8 && b != n {
			t.Errorf("%d sequences are rounded to %d", n, b)
		}
		if b != last {
			different++
		}
		last = b
	}
	if different > 64 {
		t.Errorf("there are %d sizes of recorded steps", different)
	}
}

// rotation is one whose frequencies go with a step.
var rotation = &graph.Rotation{Name: "a", Dim: 12, Theta: 10000, Scaling: graph.Scaling{Kind: graph.DynamicScaling, Factor: 2, OrigContext: 8}}

// TestPack lays random steps out, in no more room than was reckoned, and finds everything where a kernel would.
func TestPack(t *testing.T) {
	const base = 1 << 20
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		varying := []*graph.Rotation{rotation, rotation}[:rnd.IntN(3)]
		steps := randomSteps(rnd)
		lim := testkit.LimitsFor(steps, 4<<rnd.IntN(3))
		for range rnd.IntN(4) {
			lim.Groups = append(lim.Groups, backend.GroupLimits{Pages: lim.Pages})
		}
		room := stepBytes(lim, len(varying)*(rotation.Dim/2+4))
		for _, b := range testkit.Sequence(steps, lim, 50, rnd.IntN(2) == 0, rnd.Uint64()) {
			if rnd.IntN(3) == 0 {
				testkit.Trees(b, rnd)
			}
			if rnd.IntN(3) == 0 {
				b.Positions = append(append(b.Positions, b.Tokens...), b.Tokens...) // any
			}
			w := writer{host: make([]byte, room+1<<10), base: base}
			s := pack(&w, b, shapeOf(b, lim).rounded(b, lim), lim, varying)
			if w.used > room {
				t.Fatalf("%+v takes %d bytes, and %d were reckoned: %+v", s.shape, w.used, room, lim)
			}
			checkPacked(t, b, &s, lim, func(p driver.Ptr, n int) []int32 {
				ints := make([]int32, n)
				for i := range ints {
					ints[i] = int32(binary.LittleEndian.Uint32(w.host[int(p)-base+4*i:]))
				}
				return ints
			})
		}
	}
}

// randomSteps are some steps of up to 40 sequences: prompts, single tokens or both, as long as a tile or two.
func randomSteps(rnd *rand.Rand) testkit.Steps {
	steps := make(testkit.Steps, 3)
	seqs, most := 1+rnd.IntN(40), []int{1, 2, 150, 300}[rnd.IntN(4)]
	for i := range steps {
		for range seqs {
			steps[i] = append(steps[i], 1+rnd.IntN(most))
		}
	}
	return steps
}

// checkPacked reads a step as kernels do.
func checkPacked(t *testing.T, b *backend.Batch, s *step, lim backend.Limits, at func(p driver.Ptr, n int) []int32) {
	t.Helper()
	tokens, seqs := len(b.Tokens), b.Seqs()
	same := func(what string, p driver.Ptr, want []int32) {
		t.Helper()
		if got := at(p, len(want)); !slices.Equal(got, want) {
			t.Errorf("%s are %v, want %v", what, got, want)
		}
	}
	same("counts", s.Counts, []int32{kernels.CountTokens: int32(tokens), kernels.CountSeqs: int32(seqs), kernels.CountLogits: int32(len(b.LogitsIndices)), kernels.CountArrived: int32(tokens)})
	same("tokens", s.ids, b.Tokens)
	if s.axes == 1 {
		same("positions", s.Positions, b.Positions)
	}
	for axis := range s.axes {
		same("positions on an axis", s.Positions+driver.Ptr(4*axis*int(s.axisStride())), b.Positions[axis*tokens:(axis+1)*tokens])
	}
	if s.trees > 0 {
		same("lengths of trees", s.treeLen, b.TreeLen)
		for r, bits := range b.Ancestors {
			same("ancestors", s.ancestors+driver.Ptr(8*r), []int32{int32(bits), int32(bits >> 32)})
		}
	}
	if s.Step.Slots != 0 || s.Step.Pages != 0 {
		t.Error("a launch that forgets which cache group it is of would find the slots and pages of another")
	}
	for g := range b.Tables {
		same("slots", s.of(&graph.Cache{Group: g}).Slots, b.Tables[g].Slots)
	}
	same("first rows", s.QStart, b.QStart)
	same("lengths", s.KVLen, b.KVLen)
	same("rows of logits", s.LogitsIndices, b.LogitsIndices)
	covered := make([]int, tokens) // by tiles
	for i := range s.tiles {
		seq, first := at(s.Tiles, 2*s.tiles)[2*i], at(s.Tiles, 2*s.tiles)[2*i+1]
		for r := first; r < min(first+prefillsm90.TileRows, b.QStart[seq+1]); r++ {
			covered[r]++
		}
	}
	rowSeq := at(s.RowSeq, tokens)
	for i := range seqs {
		for r := b.QStart[i]; r < b.QStart[i+1]; r++ {
			if int(rowSeq[r]) != i {
				t.Errorf("row %d is of sequence %d, want %d", r, rowSeq[r], i)
			}
			if n := b.QStart[i+1] - b.QStart[i]; (n > 1 && b.Tree(i) == 0) != (covered[r] == 1) {
				t.Errorf("row %d, of %d of its sequence, is in %d tiles", r, n, covered[r])
			}
		}
		used := (int(b.KVLen[i]) + lim.PageSize - 1) / lim.PageSize
		for g := range b.Tables {
			same("pages", s.of(&graph.Cache{Group: g}).Pages+driver.Ptr(4*i*int(s.SeqPages)), b.Tables[g].Pages[i*b.SeqPages:i*b.SeqPages+used])
		}
		for _, p := range s.rates {
			perPosition, _ := rotation.Frequencies(int(b.RopeLen[i]))
			for j, bits := range at(p+driver.Ptr(4*i*len(perPosition)), len(perPosition)) {
				if math.Float32frombits(uint32(bits)) != perPosition[j] {
					t.Errorf("sequence %d turns its pair %d by another frequency", i, j)
				}
			}
		}
	}
}
