package shm_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ridge-llm/ridge/backend/cpu/gemm"
	"github.com/ridge-llm/ridge/backend/cpu/vec"
	"github.com/ridge-llm/ridge/comm/shm"
)

const peerVariable = "RIDGE_SHM_PEER"

// pin has the goroutine's thread run on one processor.
func pin(t testing.TB, processor int) {
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(processor % runtime.NumCPU())
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
}

// TestPeer is the other process of BenchmarkAllReduce: it does what it is told to, a number of times.
func TestPeer(t *testing.T) {
	var m shm.Memory
	if err := json.Unmarshal([]byte(os.Getenv(peerVariable)), &m); err != nil {
		t.Skip("it is for BenchmarkAllReduce, which starts it")
	}
	r, err := shm.Open(m, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	pin(t, 1)
	for {
		var what [2]float32
		if err := r.Recv(0, what[:]); err != nil {
			t.Fatal(err)
		}
		if what[1] == 0 {
			return
		}
		measure(t, r, int(what[0]), int(what[1]))
	}
}

// measure is the median time of so many all-reduces of n numbers or, of -n, of passes over as many, both processes at the same time.
func measure(t testing.TB, r *shm.Rank, n, times int) time.Duration {
	x, ops := make([]float32, max(n, -n)), vec.For(gemm.Tiers()[0])
	var took []time.Duration
	for range times {
		if n < 0 { // begin together
			if err := r.AllReduce(x[:1]); err != nil {
				t.Fatal(err)
			}
		}
		start := time.Now()
		if n < 0 {
			ops.Add(x, x, x)
		} else if err := r.AllReduce(x); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// BenchmarkAllReduce is the median time of an all-reduce between two processes that are pinned to a processor each. Of large ones memory is the limit: all numbers are read
// once and written once by each process, as by a pass over them, and the metric says what part of such a pass's speed that is.
func BenchmarkAllReduce(b *testing.B) {
	m, err := shm.Create(2)
	if err != nil {
		b.Fatal(err)
	}
	description, err := json.Marshal(m)
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestPeer$")
	cmd.Env = append(os.Environ(), peerVariable+"="+string(description))
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	r, err := shm.Open(m, 0, 2)
	if err != nil {
		b.Fatal(err)
	}
	both := func(b *testing.B, n, times int) time.Duration {
		if err := r.Send(1, []float32{float32(n), float32(times)}); err != nil {
			b.Fatal(err)
		}
		pin(b, 0)
		return measure(b, r, n, times)
	}
	for _, size := range []int{1 << 10, 16 << 10, 128 << 10, 1 << 20, 16 << 20} {
		b.Run(fmt.Sprintf("%dKB", size>>10), func(b *testing.B) {
			times := min(max((64<<20)/size, 15), 3000)
			took := both(b, size/4, times)
			b.ReportMetric(float64(took.Nanoseconds())/1e3, "µs/reduce")
			if size >= 16<<20 {
				const more = 8 // times what may lie in a cache
				b.ReportMetric(both(b, -more*size/4, 5).Seconds()/more/took.Seconds(), "of-bandwidth")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
	if err := r.Send(1, []float32{0, 0}); err != nil {
		b.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		b.Error(err)
	}
	if err := shm.Remove(m); err != nil {
		b.Error(err)
	}
}
