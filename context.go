package ridge

import (
	"cmp"
	"fmt"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/model"
)

// checkContext refuses a context that drafts fill, or with more tokens than the model has learned positions for, and notes one that is longer than
// the model was made for.
func (o Options) checkContext(c *model.Config, g *graph.Graph) error {
	if n, context := o.Speculation.most(), cmp.Or(o.Context, c.Context); o.Speculation.Method != "" && n >= context {
		return fmt.Errorf("ridge: drafts of %d tokens (num_speculative_tokens) are not possible with a context of %d (--ctx), which has to hold what they go on from too; shorten them, or raise it", n, context)
	}
	if o.Context <= c.Context {
		return nil
	}
	for _, n := range g.Nodes {
		if e, ok := n.Op.(graph.Embed); ok && e.ByPosition && n.Weights[0].Out.Len() < o.Context {
			return fmt.Errorf("ridge: Context (--ctx) is %d and the model has learned positions for %d tokens; lower it to that, or leave it out", o.Context, n.Weights[0].Out.Len())
		}
	}
	if o.Note != nil {
		o.Note(fmt.Sprintf("the context of %d tokens (--ctx) is longer than the %d that the model was made for; %s", o.Context, c.Context, beyond(c.Rotation)))
	}
	return nil
}

// beyond says what becomes of positions that a model was not made for.
func beyond(r *graph.Rotation) string {
	switch {
	case r == nil:
		return "nothing stretches its positions, and answers may get worse beyond"
	case r.Scaling.Kind == graph.DynamicScaling:
		return fmt.Sprintf("its RoPE (%s) stretches with the length, and answers get worse slowly", r)
	case r.Scaling.Kind != graph.NoScaling:
		return fmt.Sprintf("its RoPE (%s) stretches no further than that, and answers get worse beyond", r)
	}
	return fmt.Sprintf("nothing stretches its RoPE (%s), and answers get worse beyond", r)
}
