package local_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/comm"
	"github.com/ridge-llm/ridge/comm/local"
)

// together runs one goroutine a rank and returns the first error of each.
func together(n int, run func(c comm.Communicator) error) []error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i, c := range local.New(n) {
		all.Go(func() { errs[i] = run(c) })
	}
	all.Wait()
	return errs
}

// TestCollectives: many rounds of all collectives, of lengths that ranks do not divide and of none, with the sums of one order.
func TestCollectives(t *testing.T) {
	for _, n := range []int{1, 2, 3, 8} {
		rnd := rand.New(rand.NewPCG(1, uint64(n)))
		var given [][][]float32 // of each round and rank
		for round := range 50 {
			x := make([][]float32, n)
			for i := range x {
				x[i] = make([]float32, round*7%23)
				for j := range x[i] {
					x[i][j] = rnd.Float32() - 0.5
				}
			}
			given = append(given, x)
		}
		for i, err := range together(n, func(c comm.Communicator) error {
			for round, x := range given {
				sum, all := slices.Clone(x[c.Rank()]), make([]float32, n*len(x[0]))
				if err := c.AllReduce(sum); err != nil {
					return err
				}
				for j := range sum {
					want := x[0][j]
					for _, other := range x[1:] {
						want += other[j]
					}
					if sum[j] != want {
						t.Errorf("%d ranks, round %d: a sum is %g and should be %g", n, round, sum[j], want)
					}
				}
				if err := c.AllGather(all, x[c.Rank()]); err != nil {
					return err
				}
				if !slices.Equal(all, slices.Concat(x...)) {
					t.Errorf("%d ranks, round %d: not what was given is gathered", n, round)
				}
				if next := c.Rank() + 1; next < n {
					if err := c.Send(next, x[c.Rank()]); err != nil {
						return err
					}
				}
				if c.Rank() > 0 {
					got := make([]float32, len(x[0]))
					if err := c.Recv(c.Rank()-1, got); err != nil {
						return err
					}
					if !slices.Equal(got, x[c.Rank()-1]) {
						t.Errorf("%d ranks, round %d: not what was sent is received", n, round)
					}
				}
			}
			return nil
		}) {
			if err != nil {
				t.Errorf("%d ranks: rank %d: %v", n, i, err)
			}
		}
	}
}

// TestAbort: ranks that wait for one that has failed get its error, and so do those that call later.
func TestAbort(t *testing.T) {
	failed := errors.New("rank 1 is out of memory")
	for what, call := range map[string]func(c comm.Communicator) error{
		"all-reduce": func(c comm.Communicator) error { return c.AllReduce(make([]float32, 4)) },
		"all-gather": func(c comm.Communicator) error { return c.AllGather(make([]float32, 12), make([]float32, 4)) },
		"send":       func(c comm.Communicator) error { return c.Send(1, make([]float32, 4)) },
		"recv":       func(c comm.Communicator) error { return c.Recv(1, make([]float32, 4)) },
	} {
		for i, err := range together(3, func(c comm.Communicator) error {
			if c.Rank() == 1 {
				time.Sleep(5 * time.Millisecond)
				c.Abort(failed)
			}
			return call(c)
		}) {
			if i != 1 && !errors.Is(err, failed) || i == 1 && what != "send" && what != "recv" && !errors.Is(err, failed) {
				t.Errorf("%s: rank %d gets %v", what, i, err)
			}
		}
	}
}

// TestReset: a group that a rank has aborted works again.
func TestReset(t *testing.T) {
	group := local.New(2)
	failed := errors.New("failed")
	for round := range 3 {
		var all sync.WaitGroup
		for _, c := range group {
			all.Go(func() {
				x := []float32{float32(1 + c.Rank())}
				if round == 1 && c.Rank() == 1 {
					c.Abort(failed)
				}
				if err := c.AllReduce(x); (err != nil) != (round == 1) || err == nil && x[0] != 3 {
					t.Errorf("round %d: rank %d has %g, %v", round, c.Rank(), x[0], err)
				}
			})
		}
		all.Wait()
		group[0].Reset()
	}
}

// TestLengths: collectives of different lengths are refused by all.
func TestLengths(t *testing.T) {
	for i, err := range together(2, func(c comm.Communicator) error { return c.AllReduce(make([]float32, 3+c.Rank())) }) {
		if err == nil || !strings.Contains(err.Error(), "rank 1 gives 4 numbers to a collective and rank 0 gives 3") {
			t.Errorf("rank %d: %v", i, err)
		}
	}
}
