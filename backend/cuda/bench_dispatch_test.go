package cuda

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
)

// BenchmarkDispatch: rows on their way to experts and back, by how many rows each rank has, beside what a link of 450 GB/s a direction takes for the rows that go to other ranks.
func BenchmarkDispatch(b *testing.B) {
	const most = 64 << 20
	fmt.Printf("bf16; µs on the device of one of %d calls in a stream; medians, the slowest rank\n", collectiveCalls)
	group := groupOf(b, OwnKernels, most)
	for _, m := range []struct{ width, experts, top int }{{2048, 128, 8}, {7168, 256, 8}} {
		for _, rows := range []int{1, 16, 64, 256, 1024, 2048} {
			if len(group)*rows*m.width*2 <= most {
				fmt.Println(dispatchTimes(b, group, m.width, m.experts, m.top, rows))
			}
		}
	}
}

// dispatchTimes is the table's line of one number of rows.
func dispatchTimes(b *testing.B, group []*rankOf, width, experts, top, rows int) string {
	n := len(group)
	spread := graph.Spread{Ranks: n, Split: 1, Experts: experts, Top: top}
	value := func(kind graph.Rows, width int, t graph.Type) *graph.Value {
		return &graph.Value{Name: "x", Rows: kind, Axis: graph.Axis{Name: "numbers", Count: width, Size: 1}, Type: t}
	}
	x, shares := value(graph.Tokens, width, graph.BF16), value(graph.Tokens, experts, graph.F32)
	come, here, sums := value(graph.Arrived, width, graph.BF16), value(graph.Arrived, experts, graph.F32), value(graph.Tokens, width, graph.BF16)
	there := &graph.Node{Op: graph.Dispatch{Spread: spread}, In: []*graph.Value{x, shares}, Out: []*graph.Value{come, here}}
	back := &graph.Node{Op: graph.Combine{Spread: spread}, In: []*graph.Value{come, here}, Out: []*graph.Value{sums}}
	lim := backend.Limits{Tokens: n * rows, Seqs: 1, PageSize: 16}
	var first []int32
	for i := range n + 1 {
		first = append(first, int32(i*rows))
	}
	puts, backs, steps := map[*rankOf]func(*step) error{}, map[*rankOf]func(*step) error{}, map[*rankOf]*step{}
	rnd, sent := rand.New(rand.NewPCG(1, 2)), 0
	for i, r := range group {
		list := make([]float32, rows*experts)
		for row := range rows {
			others := map[int]bool{}
			for k := 0; k < top; {
				if e := rnd.IntN(experts); list[row*experts+e] == 0 {
					list[row*experts+e] = 1 / float32(top)
					others[e/spread.Held()] = true
					k++
				}
			}
			delete(others, i)
			sent += len(others)
		}
		alloc := func(bytes int64) backend.Buffer {
			m, err := r.d.Alloc(bytes, "a benchmark's rows")
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { r.d.Free(m) })
			return m
		}
		s, h, counts := alloc(4*int64(len(list))), alloc(4*int64(n*len(list))), alloc(64)
		if err := r.d.Write(shares, s, list, rows); err != nil {
			b.Fatal(err)
		}
		to, err := r.p.Bind(there, backend.Args{In: []backend.Buffer{r.x, s}, Out: []backend.Buffer{r.y, h}, Limits: lim})
		if err != nil {
			b.Fatal(err)
		}
		from, err := r.p.Bind(back, backend.Args{In: []backend.Buffer{r.y, h}, Out: []backend.Buffer{r.x}, Limits: lim})
		if err != nil {
			b.Fatal(err)
		}
		puts[r], backs[r], steps[r] = to.(*launch).put, from.(*launch).put, &step{shape: shape{tokens: n * rows}, first: first}
		steps[r].Counts = at(counts)
	}
	dispatch, host, _ := timed(b, group, func(r *rankOf) error { return puts[r](steps[r]) })
	combine, _, _ := timed(b, group, func(r *rankOf) error { return backs[r](steps[r]) })
	link := float64(sent/n*width*2) / 450e9 * 1e6
	return fmt.Sprintf("%5d rows of %d, %d of %d experts on %d ranks: dispatch %7.2f (host %5.2f)  combine %7.2f  the link alone %7.2f each", rows, width, top, experts, n, dispatch.Seconds()*1e6, host.Seconds()*1e6, combine.Seconds()*1e6, link)
}
