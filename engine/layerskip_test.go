package engine

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine/draft/layerskip"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
)

// firstLayers is a program of the built-in model's first layers, in the cache of one of all.
func firstLayers(t *testing.T, prog *compile.Program, layers int) *compile.Program {
	t.Helper()
	dir, err := modeldir.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	g, err := dir.Model.Graph(model.Options{Act: graph.F32, Cache: graph.F16})
	if err == nil {
		g, err = graph.Segment(g, 0, layers)
	}
	if err == nil {
		g, err = pass.Run(g, pass.All, pass.Options{Q8: true})
	}
	if err != nil {
		t.Fatal(err)
	}
	part, err := prog.Part(g, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { part.Close(); dir.Close() })
	return part
}

// TestLayerSkip: drafts of the model's first layers, made in its own cache, change no answer, greedy or sampled, be there room for them or hardly any, and of the drafts of
// all layers every token is accepted. What drafts wrote beside the sequences is given back at each step.
func TestLayerSkip(t *testing.T) {
	const requests = 6
	roomy := backend.Limits{Tokens: 128, Seqs: 6, Logits: 48, PageSize: 16, SeqPages: 10, Pages: 66}
	tight := roomy
	tight.Pages = 15
	run := func(lim backend.Limits, layers int) (got [requests]collected, e *stepped) {
		e = still(t, modeldir.Builtin, lim, Options{})
		if layers > 0 {
			e = newStepped(t, e.prog, Options{Speculation: Speculation{
				Drafter: layerskip.New(borrowed{firstLayers(t, e.prog.(*compile.Program), layers)}, func() error { return nil }), Tokens: 5, Always: true, Failed: func(err error) { t.Error(err) },
			}})
		}
		submitPairs(t, e, got[:])
		for e.admit(); len(e.queue.byID) > 0; {
			mustStep(t, e)
		}
		return got, e
	}
	want, whole := run(roomy, 0)
	all := whole.prog.(*compile.Program).Graph.Layers()
	for _, c := range []struct {
		name   string
		lim    backend.Limits
		layers int
	}{{"roomy", roomy, all}, {"roomy", roomy, all / 2}, {"tight", tight, all}, {"tight", tight, 1}} {
		t.Run(fmt.Sprint(c.name, c.layers), func(t *testing.T) {
			got, e := run(c.lim, c.layers)
			for i := range got {
				if !slices.Equal(got[i].tokens, want[i].tokens) {
					t.Errorf("request %d got %v; without drafts %v", i, got[i].tokens, want[i].tokens)
				}
			}
			s := e.meter.stats
			t.Logf("%d steps, %d of %d tokens accepted, %d preemptions", s.Steps, s.AcceptedTokens, s.DraftTokens, s.Preemptions)
			if s.DraftTokens == 0 || c.layers == all && s.AcceptedTokens != s.DraftTokens {
				t.Errorf("%d of %d tokens accepted", s.AcceptedTokens, s.DraftTokens)
			}
		})
	}
}
