package cuda

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/backend/cuda/ptx"
	"github.com/ridge-llm/ridge/backend/sampling"
	"github.com/ridge-llm/ridge/comm/world"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/compile/ranks"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/internal/testkit"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
)

// TestRanksSample: where two ranks share all layers both sample, so that steps run ahead, with placeholders of tokens that nobody has read; where they are stages of a pipeline rank 0 does, and they do not.
func TestRanksSample(t *testing.T) {
	for _, l := range []pass.Layout{{Tensor: 2, Pipeline: 1, Data: 1}, {Tensor: 1, Pipeline: 2, Data: 1}} {
		t.Run(l.String(), func(t *testing.T) { ranksSample(t, l) })
	}
}

func ranksSample(t *testing.T, l pass.Layout) {
	devices := pair(t, OwnKernels)
	b, err := modeldir.Open("../../internal/check/testdata/llama-default")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	g, err := b.Model.Graph(model.Options{Act: graph.BF16, Cache: graph.F16})
	if err != nil {
		t.Fatal(err)
	}
	steps := testkit.Steps{{5, 1}, {1, 1}, {1, 1}, {1, 1}}
	lim := testkit.LimitsFor(steps, 16)
	lim.KeepAll(g)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	meet := func(rank int) (*world.World, error) {
		o := world.Options{Rank: rank, Size: 2, Address: listener.Addr().String(), Secret: []byte("the secret of a test"), Groups: ranks.Groups(l), Meet: 30 * time.Second, Noticed: 30 * time.Second}
		if rank == 0 {
			o.Listener = listener
		}
		return world.Meet(context.Background(), o)
	}
	passes := func(rank int) pass.Options {
		return pass.Options{Layout: l, Kernels: compile.Kernels{Device: devices[rank]}}
	}
	worked := make(chan error, 1)
	go func() {
		w, err := meet(1)
		if err == nil {
			err = errors.Join(ranks.Work(g, passes(1), devices[1], b, w, func() {}), w.Close())
		}
		worked <- err
	}()
	w, err := meet(0)
	if err != nil {
		t.Fatal(err)
	}
	lead, err := ranks.Start(g, passes(0), devices[0], b, lim, w)
	if errors.Is(err, ptx.ErrMissing) && os.Getenv("CI") != "true" {
		t.Skip("the source of a kernel is newer than the PTX; make ptx rebuilds that")
	}
	if err != nil {
		t.Fatal(err)
	}
	if ahead := l.Tensor == 2; !lead.CanSample() || lead.RunsAhead() != ahead {
		t.Errorf("rank 0 samples: %t, steps run ahead: %t", lead.CanSample(), lead.RunsAhead())
	}
	results := make([]sampling.Result, 1)
	for i, batch := range testkit.Sequence(steps, lim, lead.Ids(), false, 1) {
		if lead.RunsAhead() && i > 0 {
			batch.Tokens[0], batch.FutureTokens = -1, 1 // of the step that is still in flight
		}
		if err := lead.Run(batch); err != nil {
			t.Fatal(err)
		}
		if err := lead.Sample([]sampling.Sample{{TopP: 1, TypicalP: 1, Future: -1}}); err != nil {
			t.Fatal(err)
		}
		if i > 0 || !lead.RunsAhead() {
			if _, err := lead.SampleResults(results); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := lead.SampleResults(slices.Clone(results)); (err == nil) != lead.RunsAhead() {
		t.Errorf("the results of the last step: %v", err)
	}
	lead.Close()
	if err := <-worked; err != nil {
		t.Error(err)
	}
}
