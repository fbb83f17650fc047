package local_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/ridge-llm/ridge/comm"
	"github.com/ridge-llm/ridge/comm/commtest"
	"github.com/ridge-llm/ridge/comm/local"
)

// TestCommunicator: what every transport promises.
func TestCommunicator(t *testing.T) {
	commtest.Run(t, func(_ *testing.T, ranks int) (all []comm.Communicator) {
		for _, r := range local.New(ranks) {
			all = append(all, r)
		}
		return all
	})
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
