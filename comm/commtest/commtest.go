// Package commtest has the tests that every comm.Communicator must pass.
package commtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/comm"
)

// Together has a goroutine for each rank run something and returns the error of each.
func Together(group []comm.Communicator, run func(c comm.Communicator) error) []error {
	errs := make([]error, len(group))
	var all sync.WaitGroup
	for i, c := range group {
		all.Go(func() { errs[i] = run(c) })
	}
	all.Wait()
	return errs
}

// Run tests groups of the transport that group makes.
func Run(t *testing.T, group func(t *testing.T, ranks int) []comm.Communicator) {
	t.Run("Collectives", func(t *testing.T) { collectives(t, group) })
	t.Run("Large", func(t *testing.T) { large(t, group) })
	t.Run("AllToAll", func(t *testing.T) { allToAll(t, group) })
	t.Run("Abort", func(t *testing.T) { aborts(t, group) })
	t.Run("Lengths", func(t *testing.T) { lengths(t, group) })
}

// Rank tests a rank whose others are processes of their own that call it too.
func Rank(t *testing.T, c comm.Communicator) {
	n := c.Size()
	rnd := rand.New(rand.NewPCG(3, uint64(n)))
	var given [][][]float32
	for round := range 40 {
		given = append(given, random(rnd, n, round*7%23))
	}
	for _, length := range []int{8192, 8193, 200_001, 17} {
		given = append(given, random(rnd, n, length))
	}
	if err := rounds(t, c, given); err != nil {
		t.Error(err)
	}
	to, from := make([][]float32, n), make([][]float32, n)
	for k := range n {
		to[k], from[k] = []float32{float32(10*c.Rank() + k)}, make([]float32, 1)
	}
	if err := comm.AllToAll(c, to, from); err != nil {
		t.Error(err)
	}
	for k := range n {
		if want := float32(10*k + c.Rank()); from[k][0] != want {
			t.Errorf("rank %d sends rank %d %g in an all-to-all, and %g is right", k, c.Rank(), from[k][0], want)
		}
	}
}

// random is what each rank gives.
func random(rnd *rand.Rand, ranks, n int) [][]float32 {
	x := make([][]float32, ranks)
	for i := range x {
		x[i] = make([]float32, n)
		for j := range x[i] {
			x[i][j] = rnd.Float32() - 0.5
		}
	}
	return x
}

// sum adds in the order of ranks.
func sum(x [][]float32) []float32 {
	all := slices.Clone(x[0])
	for _, other := range x[1:] {
		for j := range all {
			all[j] += other[j]
		}
	}
	return all
}

// collectives: many rounds of all collectives, of lengths that ranks do not divide and of none, with the sums of one order.
func collectives(t *testing.T, group func(t *testing.T, ranks int) []comm.Communicator) {
	for _, n := range []int{1, 2, 3, 8} {
		rnd := rand.New(rand.NewPCG(1, uint64(n)))
		var given [][][]float32 // of each round and rank
		for round := range 20 {
			given = append(given, random(rnd, n, round*7%23))
		}
		check(t, group(t, n), given)
	}
}

// large: messages of many blocks, about their borders and beyond.
func large(t *testing.T, group func(t *testing.T, ranks int) []comm.Communicator) {
	for _, n := range []int{2, 3, 4} {
		rnd := rand.New(rand.NewPCG(2, uint64(n)))
		var given [][][]float32
		for _, length := range []int{8192, 8193, 32767, 32768, 32769, 200_001, 17} {
			given = append(given, random(rnd, n, length))
		}
		check(t, group(t, n), given)
	}
}

// check has the ranks of a group exchange what is given in each round.
func check(t *testing.T, group []comm.Communicator, given [][][]float32) {
	t.Helper()
	n := len(group)
	for i, err := range Together(group, func(c comm.Communicator) error {
		if c.Size() != n {
			t.Errorf("a group of %d ranks says that it has %d", n, c.Size())
		}
		return rounds(t, c, given)
	}) {
		if err != nil {
			t.Errorf("%d ranks: rank %d: %v", n, i, err)
		}
	}
}

// rounds is one rank's part of check.
func rounds(t *testing.T, c comm.Communicator, given [][][]float32) error {
	n := c.Size()
	for round, x := range given {
		reduced, all := slices.Clone(x[c.Rank()]), make([]float32, n*len(x[0]))
		if err := c.AllReduce(reduced); err != nil {
			return err
		}
		if !slices.Equal(reduced, sum(x)) {
			t.Errorf("%d ranks, round %d: rank %d has other sums than those in the order of ranks", n, round, c.Rank())
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
}

// allToAll: pieces of other lengths from every rank to every other one, some of them empty, in every round, and more than a transport has room for at a time.
func allToAll(t *testing.T, group func(t *testing.T, ranks int) []comm.Communicator) {
	length := func(round, from, to int) int { return (from*7 + to*3 + round) % 5 * (1 + round*round*1500) }
	for _, n := range []int{1, 2, 3, 4} {
		for i, err := range Together(group(t, n), func(c comm.Communicator) error {
			for round := range 6 {
				to, from := make([][]float32, n), make([][]float32, n)
				for k := range n {
					to[k], from[k] = make([]float32, length(round, c.Rank(), k)), make([]float32, length(round, k, c.Rank()))
					for j := range to[k] {
						to[k][j] = float32(c.Rank()*1000 + k*100 + j%90)
					}
				}
				if err := comm.AllToAll(c, to, from); err != nil {
					return err
				}
				for k := range n {
					for j, x := range from[k] {
						if want := float32(k*1000 + c.Rank()*100 + j%90); x != want {
							return fmt.Errorf("%d ranks, round %d: number %d of rank %d is %g at rank %d and was %g", n, round, j, k, x, c.Rank(), want)
						}
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

// aborts: ranks that wait for one that has failed are told why, and so are those that call later.
func aborts(t *testing.T, group func(t *testing.T, ranks int) []comm.Communicator) {
	failed := errors.New("rank 1 is out of memory")
	for what, call := range map[string]func(c comm.Communicator) error{
		"all-reduce": func(c comm.Communicator) error { return c.AllReduce(make([]float32, 4)) },
		"all-gather": func(c comm.Communicator) error { return c.AllGather(make([]float32, 12), make([]float32, 4)) },
		"all-to-all": func(c comm.Communicator) error {
			return comm.AllToAll(c, [][]float32{{1}, {1}, {1}}, [][]float32{{0}, {0}, {0}})
		},
		"recv": func(c comm.Communicator) error { return c.Recv(1, make([]float32, 4)) },
	} {
		for i, err := range Together(group(t, 3), func(c comm.Communicator) error {
			if c.Rank() == 1 {
				time.Sleep(5 * time.Millisecond)
				c.Abort(failed)
				return c.AllReduce(make([]float32, 4))
			}
			return call(c)
		}) {
			if err == nil || !strings.Contains(err.Error(), failed.Error()) {
				t.Errorf("%s: rank %d gets %v", what, i, err)
			}
		}
	}
}

// lengths: collectives of different lengths are refused by all.
func lengths(t *testing.T, group func(t *testing.T, ranks int) []comm.Communicator) {
	for i, err := range Together(group(t, 2), func(c comm.Communicator) error { return c.AllReduce(make([]float32, 3+c.Rank())) }) {
		if err == nil || !strings.Contains(err.Error(), "numbers to a") {
			t.Errorf("rank %d: %v", i, err)
		}
	}
}
