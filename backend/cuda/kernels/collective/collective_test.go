package collective

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

func TestMirrors(t *testing.T) {
	size := unsafe.Sizeof(Params{})
	gputest.Mirrors(t, "collective/collective", map[string]uintptr{"reduce_once": size, "reduce_parts": size, "reduce_norm": unsafe.Sizeof(NormParams{}), "gather_": size, "exchange_": unsafe.Sizeof(ExchangeParams{}), "selected_": unsafe.Sizeof(SelectedParams{}), "join_": size, "send": size, "receive": size})
}

// ranks are several on one GPU, each with a stream of its own: their kernels run beside each other and wait for each other.
type ranks struct {
	*gputest.GPU
	groups  []Group
	streams []*driver.Stream
	aborted []byte
}

func newRanks(g *gputest.GPU, n int) *ranks {
	r := &ranks{GPU: g}
	var err error
	r.aborted, err = g.Ctx.AllocHost(4)
	g.Must(err)
	clear(r.aborted)
	var windows [MaxRanks]driver.Ptr
	for i := range n {
		windows[i] = g.Poisoned(WindowBytes)
		g.Must(g.Stream.Fill(windows[i], 0, Zeros))
	}
	g.Must(g.Stream.Synchronize())
	for i := range n {
		s, err := g.Ctx.NewStream()
		g.Must(err)
		s.Overlap = g.Stream.Overlap
		r.streams = append(r.streams, s)
		r.groups = append(r.groups, Group{Windows: windows, Aborted: driver.Host(r.aborted), Rank: i, Ranks: n, Share: true, SMs: g.Loader.SMs()})
	}
	return r
}

// each has all ranks put something on their streams, and waits for it.
func (r *ranks) each(do func(s *driver.Stream, g *Group) error) {
	r.Helper()
	r.Must(r.Loader.Wait())
	var wait sync.WaitGroup
	for i := range r.groups {
		wait.Go(func() {
			err := r.Ctx.Do(func() error {
				if err := do(r.streams[i], &r.groups[i]); err != nil {
					return err
				}
				return r.streams[i].Synchronize()
			})
			if err != nil {
				r.Errorf("rank %d: %v", i, err)
			}
		})
	}
	wait.Wait()
}

func (r *ranks) close() {
	for _, s := range r.streams {
		r.Must(s.Close())
	}
	r.Must(r.Ctx.FreeHost(r.aborted))
}

// put is numbers on the device in a type.
func put(g *gputest.GPU, t graph.Type, x []float32) driver.Ptr {
	if t == graph.BF16 {
		return g.BF16(x)
	}
	return g.F32(x)
}

// read is bits of numbers on the device.
func read(g *gputest.GPU, t graph.Type, p driver.Ptr, n int) []float32 {
	if t == graph.BF16 {
		return g.ReadBF16(p, n)
	}
	return g.ReadF32(p, n)
}

// same fails the test unless numbers are the same to the last bit.
func same(g *gputest.GPU, what string, got, want []float32) {
	g.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			g.Errorf("%s: number %d of %d is %g, want %g", what, i, len(want), got[i], want[i])
			return
		}
	}
}

// TestReduce: sums of several ranks are those in F32 in the order of ranks, rounded, to the last bit, on all ranks; sizes around vectors, blocks, the
// change from one shot to two, and several launches; again and again, so that both stages are used and used again.
func TestReduce(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		for _, n := range []int{2, 3, 4} { // streams beyond the GPU's queues would wait for each other
			r := newRanks(g, n)
			for _, typ := range gputest.Plain {
				k, err := NewReduce(g.Loader, typ)
				g.Must(err)
				for _, count := range []int{1, 7, 8, 9, 4096, 2048*4 + 3, 4096, once / int(k.size), once/int(k.size) + 1, 1_000_003, parts/int(k.size) + 5, 64} {
					g.Scope(func() { r.testReduce(k, typ, count) })
				}
			}
			r.close()
		}
	})
}

func (r *ranks) testReduce(k Reduce, typ graph.Type, n int) {
	x, y := make([]driver.Ptr, len(r.groups)), make([]driver.Ptr, len(r.groups))
	want := make([]float32, n)
	for i := range r.groups {
		numbers := r.Random(n, 1)
		x[i], y[i] = put(r.GPU, typ, numbers), r.Poisoned(n*int(k.size)+16)
		for j, v := range numbers {
			want[j] += v
		}
	}
	if typ == graph.BF16 {
		for j, v := range want {
			want[j] = quant.BF16ToF32(quant.F32ToBF16(v))
		}
	}
	for range 3 {
		r.each(func(s *driver.Stream, g *Group) error { return k.Launch(s, g, x[g.Rank], y[g.Rank], int64(n)) })
	}
	for i := range r.groups {
		same(r.GPU, fmt.Sprintf("%d numbers of %s on rank %d of %d", n, typ, i, len(r.groups)), read(r.GPU, typ, y[i], n), want)
		if after := r.ReadBytes(y[i]+driver.Ptr(n*int(k.size)), 2); after[0] != 0xff || after[1] != 0xff {
			r.Errorf("%d numbers of %s: something is written behind them", n, typ)
		}
	}
}

// TestReduceNorm: what is added to the sum of all ranks is that of Reduce and a sum, to the last bit, on all ranks, and its norm is the norm; beside launches of
// Reduce, with which it shares stages.
func TestReduceNorm(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		for _, n := range []int{2, 3} {
			r := newRanks(g, n)
			reduce, err := NewReduce(g.Loader, graph.BF16)
			g.Must(err)
			for _, width := range []int{8, 64, 1000, 4096, widest} {
				k, err := NewReduceNorm(g.Loader, width, 1e-5)
				g.Must(err)
				for _, rows := range []int{1, 2, 7, 16} {
					if k.Fits(&r.groups[0], rows) {
						g.Scope(func() { r.testReduceNorm(reduce, k, width, rows) })
					}
				}
			}
			r.close()
		}
	})
}

func (r *ranks) testReduceNorm(reduce Reduce, k ReduceNorm, width, rows int) {
	n := rows * width
	x, sums, norms := make([]driver.Ptr, len(r.groups)), make([]driver.Ptr, len(r.groups)), make([]driver.Ptr, len(r.groups))
	total := make([]float32, n)
	for i := range r.groups {
		numbers := r.Random(n, 1)
		x[i], sums[i], norms[i] = r.BF16(numbers), r.Poisoned(2*n), r.Poisoned(2*n)
		for j, v := range numbers {
			total[j] += v
		}
	}
	rounded := func(v float32) float32 { return quant.BF16ToF32(quant.F32ToBF16(v)) }
	add, weight := r.Random(n, 1), r.Random(width, 1)
	plus := r.BF16(add)
	k.Weight = r.F32(weight)
	want := make([]float32, n)
	for row := range rows {
		squares := 0.0
		for j := row * width; j < (row+1)*width; j++ {
			total[j] = rounded(rounded(total[j]) + add[j])
			squares += float64(total[j]) * float64(total[j])
		}
		for j := range width {
			want[row*width+j] = total[row*width+j] * weight[j] / float32(math.Sqrt(squares/float64(width)+1e-5))
		}
	}
	for range 3 {
		r.each(func(s *driver.Stream, g *Group) error {
			if err := reduce.Launch(s, g, x[g.Rank], norms[g.Rank], int64(n)); err != nil {
				return err
			}
			return k.Launch(s, g, x[g.Rank], plus, sums[g.Rank], norms[g.Rank], rows)
		})
	}
	for i := range r.groups {
		what := fmt.Sprintf("%d rows of %d on rank %d of %d", rows, width, i, len(r.groups))
		same(r.GPU, what, r.ReadBF16(sums[i], n), total)
		for j, v := range r.ReadBF16(norms[i], n) {
			if math.Abs(float64(v-want[j])) > 0.01*math.Abs(float64(want[j]))+1e-6 {
				r.Errorf("%s: number %d of the norm is %g, want %g", what, j, v, want[j])
				return
			}
		}
	}
}

// TestReduceNaN: a number that is none arrives as one, and ends no rank's wait: the word that marks an empty place is such a number.
func TestReduceNaN(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		r := newRanks(g, 2)
		defer r.close()
		k, err := NewReduce(g.Loader, graph.F32)
		g.Must(err)
		for _, n := range []int{64, 400_000} {
			numbers := make([]float32, n)
			for i := range numbers {
				numbers[i] = math.Float32frombits(0xffffffff)
			}
			x, y := g.F32(numbers), [2]driver.Ptr{g.Zeros(4 * n), g.Zeros(4 * n)}
			r.each(func(s *driver.Stream, g *Group) error { return k.Launch(s, g, x, y[g.Rank], int64(n)) })
			for i := range y {
				for _, v := range g.ReadF32(y[i], n) {
					if v == v {
						t.Fatalf("the sum of NaN and NaN is %g", v)
					}
				}
			}
		}
	})
}

// TestGather: columns of all ranks side by side, of widths that are moved in every unit, with padding of the last rank dropped; the same by Join.
func TestGather(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		for _, n := range []int{2, 3, 4} { // streams beyond the GPU's queues would wait for each other
			r := newRanks(g, n)
			for _, typ := range gputest.Plain {
				for _, width := range []int{1, 2, 3, 64, 1002, 16000} {
					for _, padding := range []int{0, min(width-1, 5)} {
						for _, rows := range []int{1, 5, 200} {
							g.Scope(func() { r.testGather(typ, width, width*n-padding, rows) })
						}
					}
				}
			}
			r.close()
		}
	})
}

func (r *ranks) testGather(typ graph.Type, width, whole, rows int) {
	n := len(r.groups)
	k, err := NewGather(r.Loader, typ, width, whole)
	r.Must(err)
	x, y := make([]driver.Ptr, n), make([]driver.Ptr, n)
	want, all := make([]float32, rows*whole), []float32{}
	for i := range n {
		numbers := r.Random(rows*width, 1)
		all = append(all, numbers...)
		x[i], y[i] = put(r.GPU, typ, numbers), r.Poisoned(int(typ.RowBytes(rows*whole)))
		for row := range rows {
			for c := range width {
				if at := i*width + c; at < whole {
					want[row*whole+at] = numbers[row*width+c]
				}
			}
		}
	}
	shards, joined := put(r.GPU, typ, all), r.Poisoned(int(typ.RowBytes(rows*whole)))
	r.Must(r.Stream.Synchronize())
	for range 2 {
		r.each(func(s *driver.Stream, g *Group) error { return k.Launch(s, g, x[g.Rank], y[g.Rank], rows) })
	}
	what := fmt.Sprintf("%d rows of %d ranks × %d numbers of %s, %d in all", rows, n, width, typ, whole)
	for i := range n {
		same(r.GPU, fmt.Sprintf("%s on rank %d", what, i), read(r.GPU, typ, y[i], rows*whole), want)
	}
	r.Must(k.Join(r.Stream, r.Loader.SMs(), shards, joined, rows))
	same(r.GPU, what+" joined", read(r.GPU, typ, joined, rows*whole), want)
}

// TestExchange: blocks of rows go where they belong, of as many rows as ranks have of one another: heads of all rows, and back; some ranks have no rows, and there are more than a launch takes.
func TestExchange(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		for _, n := range []int{2, 3, 4} {
			r := newRanks(g, n)
			for _, typ := range gputest.Plain {
				for _, width := range []int{1, 2, 64, 1000} {
					for _, rows := range [][]int{{1}, {0, 1}, {3, 2, 2, 3}, {200, 199, 0, 7}, {5000 / width, 4999, 1}} {
						g.Scope(func() { r.testExchange(typ, width, append(rows, 0, 0, 0, 0)[:n]) })
					}
				}
			}
			r.close()
		}
	})
}

// testExchange has ranks with so many rows each exchange all columns of these for their own of all rows, and back.
func (r *ranks) testExchange(typ graph.Type, width int, rows []int) {
	n, total, most := len(r.groups), 0, 0
	first := []int32{0}
	for _, k := range rows {
		total, most = total+k, max(most, k)
		first = append(first, int32(total))
	}
	whole := r.Random(total*n*width, 1)
	if typ == graph.BF16 {
		for i, v := range whole {
			whole[i] = quant.BF16ToF32(quant.F32ToBF16(v))
		}
	}
	x, heads, back := make([]driver.Ptr, n), make([]driver.Ptr, n), make([]driver.Ptr, n)
	for i := range n {
		x[i] = put(r.GPU, typ, append(whole[int(first[i])*n*width:int(first[i+1])*n*width:int(first[i+1])*n*width], 0)) // one number more: there may be none
		heads[i], back[i] = r.Poisoned(int(typ.RowBytes(total*width+8))), r.Poisoned(int(typ.RowBytes(rows[i]*n*width+8)))
	}
	var columns []int
	for i := range n {
		columns = append(columns, i*width)
	}
	there, err := NewExchange(r.Loader, typ, width, n*width, width, columns...)
	r.Must(err)
	here, err := NewExchange(r.Loader, typ, width, width, n*width, columns...)
	r.Must(err)
	r.Must(r.Stream.Synchronize())
	for range 3 {
		r.each(func(s *driver.Stream, g *Group) error {
			var own, all []Block
			for i := range n {
				own, all = append(own, Block{Rows: rows[g.Rank], Column: i * width}), append(all, Block{Row: int(first[i]), Rows: rows[i]})
			}
			if err := there.Launch(s, g, x[g.Rank], heads[g.Rank], own, all, most); err != nil {
				return err
			}
			return here.Launch(s, g, heads[g.Rank], back[g.Rank], all, own, most)
		})
	}
	what := fmt.Sprintf("%v rows of %d × %d numbers of %s", rows, n, width, typ)
	for i := range n {
		want := make([]float32, 0, total*width)
		for row := range total {
			want = append(want, whole[(row*n+i)*width:(row*n+i+1)*width]...)
		}
		same(r.GPU, fmt.Sprintf("%s, heads of rank %d", what, i), read(r.GPU, typ, heads[i], total*width), want)
		same(r.GPU, fmt.Sprintf("%s, rows of rank %d", what, i), read(r.GPU, typ, back[i], rows[i]*n*width), whole[int(first[i])*n*width:int(first[i+1])*n*width])
	}
	r.testSelected(typ, n*width, x, whole, first)
}

// testSelected has rank 0 receive some of the rows, in another order.
func (r *ranks) testSelected(typ graph.Type, width int, x []driver.Ptr, whole []float32, first []int32) {
	var chosen []int32
	var want []float32
	for i := range first[len(first)-1] {
		if row := first[len(first)-1] - 1 - i; row%3 != 1 {
			chosen, want = append(chosen, row), append(want, whole[int(row)*width:int(row+1)*width]...)
		}
	}
	k, err := NewSelected(r.Loader, typ, width)
	r.Must(err)
	y, at := r.Poisoned(int(typ.RowBytes(len(want)+8))), r.Ints(chosen...)
	r.Must(r.Stream.Synchronize())
	for range 3 {
		r.each(func(s *driver.Stream, g *Group) error { return k.Launch(s, g, x[g.Rank], y, at, len(chosen), first) })
	}
	same(r.GPU, fmt.Sprintf("chosen rows of %v", first), read(r.GPU, typ, y, len(want)), want)
}

// TestMessages: what ranks send arrives, in order, while the sender is ahead: more messages than there are stages, sent before any is received.
func TestMessages(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		r := newRanks(g, 3)
		defer r.close()
		send, err := NewMessage(g.Loader, true)
		g.Must(err)
		receive, err := NewMessage(g.Loader, false)
		g.Must(err)
		for _, bytes := range []int{2, 16, 8190, message, 2*message + 34} {
			g.Scope(func() {
				const messages = 5
				var x, middle, last [messages]driver.Ptr
				var want [messages][]byte
				for i := range messages {
					want[i] = make([]byte, bytes)
					for j := 0; j+1 < bytes; j += 2 {
						binary.LittleEndian.PutUint16(want[i][j:], uint16(g.Rand.Uint32()>>16)&0x7fff)
					}
					x[i], middle[i], last[i] = g.Bytes(want[i]), g.Poisoned(bytes), g.Poisoned(bytes)
				}
				g.Must(g.Stream.Synchronize())
				r.each(func(s *driver.Stream, g *Group) error { // 0 → 1 → 2
					for i := range messages {
						var err error
						switch g.Rank {
						case 0:
							err = send.Launch(s, g, 1, x[i], int64(bytes))
						case 1:
							if err = receive.Launch(s, g, 0, middle[i], int64(bytes)); err == nil {
								err = send.Launch(s, g, 2, middle[i], int64(bytes))
							}
						case 2:
							err = receive.Launch(s, g, 1, last[i], int64(bytes))
						}
						if err != nil {
							return err
						}
					}
					return nil
				})
				for i := range messages {
					if got := g.ReadBytes(last[i], bytes); string(got) != string(want[i]) {
						t.Errorf("message %d of %d bytes is another one", i, bytes)
					}
				}
			})
		}
	})
}

// TestAborted: a kernel that waits for a rank that does not come ends when the host says so.
func TestAborted(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		r := newRanks(g, 2)
		defer r.close()
		k, err := NewReduce(g.Loader, graph.F32)
		g.Must(err)
		g.Must(g.Loader.Wait())
		x, y := g.Zeros(1024), g.Zeros(1024)
		g.Must(g.Stream.Synchronize())
		g.Must(k.Launch(r.streams[0], &r.groups[0], x, y, 256))
		time.AfterFunc(50*time.Millisecond, func() { (*atomic.Uint32)(unsafe.Pointer(&r.aborted[0])).Store(1) })
		start := time.Now()
		g.Must(r.streams[0].Synchronize())
		if took := time.Since(start); took < 30*time.Millisecond || took > 2*time.Second {
			t.Errorf("the wait ended after %s", took)
		}
	})
}
