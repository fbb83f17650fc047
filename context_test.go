package ridge

import (
	"math"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/model"
)

// TestCheckContext: a context beyond the model is noted with what stretches its positions, and refused where there is no position.
func TestCheckContext(t *testing.T) {
	rope := &graph.Rotation{Dim: 8, Theta: 10000}
	dynamic := &graph.Rotation{Dim: 8, Theta: 10000, Scaling: graph.Scaling{Kind: graph.DynamicScaling, Factor: 2, OrigContext: 100}}
	yarn := &graph.Rotation{Dim: 8, Theta: 10000, Scaling: graph.Scaling{Kind: graph.YarnScaling, Factor: 4, OrigContext: 25}}
	for _, c := range []struct {
		context  int
		rotation *graph.Rotation
		want     string
	}{
		{0, rope, ""},
		{100, rope, ""},
		{101, rope, "the context of 101 tokens (--ctx) is longer than the 100 that the model was made for; nothing stretches its RoPE (theta 10000, 8 half)"},
		{200, dynamic, "dynamic ×2 from 100) stretches with the length"},
		{200, yarn, "yarn ×4 from 25) stretches no further"},
		{200, nil, "nothing stretches its positions"},
	} {
		note := ""
		o := Options{Context: c.context, Note: func(text string) { note = text }}
		if err := o.checkContext(&model.Config{Context: 100, Rotation: c.rotation}, &graph.Graph{}); err != nil {
			t.Error(err)
		}
		if c.want == "" && note != "" || !strings.Contains(note, c.want) {
			t.Errorf("context %d: %q, want %q", c.context, note, c.want)
		}
	}
	learned := &graph.Graph{Nodes: []*graph.Node{{Op: graph.Embed{ByPosition: true}, Weights: []*graph.Weight{{Out: axis(100), In: axis(4)}}}}}
	err := Options{Context: 101}.checkContext(&model.Config{Context: 100}, learned)
	if err == nil || !strings.Contains(err.Error(), "learned positions for 100 tokens") {
		t.Error(err)
	}
}

// TestDraftsFitContext: drafts as long as the context, those of drafters beside the first too, are refused, and shorter ones are not.
func TestDraftsFitContext(t *testing.T) {
	for _, c := range []struct {
		drafts Speculation
		ok     bool
	}{
		{Speculation{}, true},
		{Speculation{Method: "ngram", Tokens: 15}, true},
		{Speculation{Method: "ngram", Tokens: 16}, false},
		{Speculation{Method: "suffix", Beside: []Speculation{{Method: "lookahead"}}}, false},
	} {
		err := Options{Context: 16, Speculation: c.drafts}.checkContext(&model.Config{Context: 100}, &graph.Graph{})
		if (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), "with a context of 16 (--ctx)") {
			t.Errorf("%+v: %v", c.drafts, err)
		}
	}
}

// TestContextBounded: a context that no position reaches is refused before anything is counted, which would overflow.
func TestContextBounded(t *testing.T) {
	for n, ok := range map[int]bool{0: true, maxContext: true, maxContext + 1: false, 1 << 62: false, math.MaxInt: false, -1: false} {
		if err := (Options{Context: n}).check(); (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "--ctx") {
			t.Errorf("%d tokens: %v", n, err)
		}
	}
}
