package cuda

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/comm/local"
	"github.com/ridge-llm/ridge/graph"
)

// rankOf is a GPU's end of a group of a benchmark.
type rankOf struct {
	d    *Device
	p    *peers
	x, y backend.Buffer
}

// groupOf is GPUs that exchange numbers through a transport: as many as there are, up to 8, or one, which two ranks share where they can.
func groupOf(b testing.TB, transport string, bytes int64) []*rankOf {
	b.Helper()
	all, err := Devices()
	if err != nil {
		b.Skipf("no GPU to test on: %v", err)
	}
	n := max(2, min(len(all), 8))
	if len(all) == 1 && transport == OnlyNCCL { // it has no GPU twice in a group; what a call takes the host shows with one rank too
		n = 1
	}
	group, errs := make([]*rankOf, n), make([]error, n)
	comms := local.New(n)
	var joining sync.WaitGroup
	for i := range n {
		joining.Go(func() {
			r := &rankOf{}
			if r.d, errs[i] = New(Options{Ordinal: i % len(all), Transport: transport}); errs[i] != nil {
				return
			}
			r.x, _ = r.d.Alloc(bytes, "numbers of a benchmark")
			r.y, _ = r.d.Alloc(bytes, "sums of a benchmark")
			p, err := r.d.Join(comms[i])
			if errs[i] = err; err == nil {
				r.p = p.(*peers)
			}
			group[i] = r
		})
	}
	joining.Wait()
	b.Cleanup(func() {
		for _, r := range group {
			if r != nil && r.d != nil {
				r.d.Close()
			}
		}
	})
	for _, err := range errs {
		if err != nil {
			b.Skipf("%q: %v", transport, err)
		}
	}
	return group
}

// reduceNode is an all-reduce of rows of so many numbers.
func reduceNode(ranks, width int) *graph.Node {
	v := graph.Value{Name: "x", Rows: graph.Tokens, Axis: graph.Axis{Name: "hidden", Count: width, Size: 1}, Type: graph.BF16}
	in, out := v, v
	in.Partial = true
	return &graph.Node{Op: graph.AllReduce{Ranks: ranks}, In: []*graph.Value{&in}, Out: []*graph.Value{&out}}
}

const collectiveCalls = 50 // timed together

// timed is the device's and the host's time of one of many calls on every rank, and the device's of those in a CUDA graph: medians of several runs, of the slowest rank.
func timed(b testing.TB, group []*rankOf, put func(r *rankOf) error) (onDevice, onHost, recorded time.Duration) {
	b.Helper()
	const runs = 9
	var device, host, graphs [runs]time.Duration
	var mu sync.Mutex
	var meet sync.WaitGroup
	comms := local.New(len(group))
	for i, r := range group {
		meet.Go(func() {
			err := r.d.do(func() error {
				many := func() error {
					for range collectiveCalls {
						if err := put(r); err != nil {
							return err
						}
					}
					return nil
				}
				clock, err := r.d.clock(2)
				if err != nil {
					return err
				}
				defer stop(clock)
				if err := r.d.loader.Wait(); err != nil {
					return err
				}
				if err := comms[i].AllReduce(make([]float32, 1)); err != nil { // a kernel that waits for other ranks keeps one that shares its GPU from loading its own
					return err
				}
				if err := many(); err != nil {
					return err
				}
				g, err := r.d.stream.Capture(many)
				if err != nil {
					return err
				}
				defer g.Close()
				for k := range 2 * runs {
					if err := r.d.stream.Synchronize(); err != nil {
						return err
					}
					if err := comms[i].AllReduce(make([]float32, 1)); err != nil {
						return err
					}
					queue := many
					if k >= runs {
						queue = func() error { return r.d.stream.Replay(g) }
					}
					if err := r.d.stream.Record(clock[0]); err != nil {
						return err
					}
					start := time.Now()
					if err := queue(); err != nil {
						return err
					}
					took := time.Since(start)
					if err := r.d.stream.Record(clock[1]); err != nil {
						return err
					}
					if err := clock[1].Synchronize(); err != nil {
						return err
					}
					since, err := clock[1].Since(clock[0])
					if err != nil {
						return err
					}
					mu.Lock()
					if k >= runs {
						graphs[k-runs] = max(graphs[k-runs], since)
					} else {
						device[k], host[k] = max(device[k], since), max(host[k], took)
					}
					mu.Unlock()
				}
				return nil
			})
			if err != nil {
				b.Error(err)
				comms[i].Abort(err)
				r.p.Abort(err)
			}
		})
	}
	meet.Wait()
	middle := func(all [runs]time.Duration) time.Duration {
		slices.Sort(all[:])
		return all[runs/2] / collectiveCalls
	}
	return middle(device), middle(host), middle(graphs)
}

// BenchmarkAllReduce: our kernels, NCCL through the same interface, and NCCL alone, by size. Its table is printed at once, since of a benchmark's log only the
// first lines are.
func BenchmarkAllReduce(b *testing.B) {
	const most = 64 << 20
	fmt.Printf("bf16; device: of %d calls in a stream; host: to queue one; graph: of as many in a CUDA graph; medians, the slowest rank\n", collectiveCalls)
	for _, transport := range []string{OwnKernels, OnlyNCCL} {
		b.Run(transport, func(b *testing.B) {
			group := groupOf(b, transport, most)
			for _, kib := range []int{8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 65536} {
				fmt.Println(reduceTimes(b, group, transport, kib, most))
			}
		})
	}
}

// reduceTimes is the table's line of one size.
func reduceTimes(b *testing.B, group []*rankOf, transport string, kib, most int) string {
	const width = 4096
	rows := kib << 10 / (2 * width)
	puts := map[*rankOf]func(*step) error{}
	for _, r := range group {
		l, err := r.p.Bind(reduceNode(len(group), width), backend.Args{In: []backend.Buffer{r.x}, Out: []backend.Buffer{r.y}, Limits: backend.Limits{Tokens: most / (2 * width), Seqs: 1, PageSize: 16}})
		if err != nil {
			b.Fatal(err)
		}
		puts[r] = l.(*launch).put
	}
	s := &step{shape: shape{tokens: rows}}
	device, host, graphs := timed(b, group, func(r *rankOf) error { return puts[r](s) })
	text := fmt.Sprintf("%6d KiB %-5s device %8.2f  host %6.2f  graph %8.2f µs", kib, transport, device.Seconds()*1e6, host.Seconds()*1e6, graphs.Seconds()*1e6)
	if transport == OnlyNCCL {
		device, host, graphs := timed(b, group, func(r *rankOf) error {
			return r.p.nccl.comm.Load().AllReduce(r.d.stream, at(r.x), at(r.y), int64(rows*width), ncclType(graph.BF16))
		})
		text += fmt.Sprintf("   NCCL alone: device %8.2f  host %6.2f  graph %8.2f µs", device.Seconds()*1e6, host.Seconds()*1e6, graphs.Seconds()*1e6)
	}
	return text
}
