package compile

import (
	"slices"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
)

// cut makes the program's steps of the launches of a plan, and of that of steps without adapters, if there is one.
func (p *Program) cut(with, without *plan) error {
	if without == nil {
		without = with
	}
	p.whole = p.steps(with, with.launches, without, without.launches)
	if p.Graph.Hidden == nil { // of a pipeline stage before the last, all of it
		p.body = p.whole
		return nil
	}
	body, err := p.cutHead(with)
	if err != nil {
		return err
	}
	plain := body
	if without != with {
		if plain, err = p.cutHead(without); err != nil {
			return err
		}
	}
	p.body = p.steps(with, body, without, plain)
	return nil
}

// cutHead is the launches of a step that wants hidden states and no logits. Hidden states that the logits' product computes itself
// where it can are written then.
func (p *Program) cutHead(l *plan) ([]backend.Launch, error) {
	n := l.graph.Hidden.From
	last := slices.Index(l.graph.Nodes, n)
	body := slices.Clone(l.launches[:last+1])
	if l.graph.Hidden.Deferred > 0 {
		n = graph.Written(n)
		k := p.dev.Kernels(n)
		if len(k) == 0 {
			return nil, p.refusal(n)
		}
		var err error
		if body[last], err = p.launch(n, k[0], l.buffers[last], l.weights); err != nil {
			return nil, err
		}
	}
	return body, nil
}

// HiddenWidth is the width of a row of hidden states; 0 when the model has none.
func (p *Program) HiddenWidth() int {
	if p.Graph.Hidden == nil {
		return 0
	}
	return p.Graph.Hidden.Axis.Len()
}

// HiddenOfAll reports whether there is a row of hidden states for every token of a step, and not only for the selected ones.
func (p *Program) HiddenOfAll() bool {
	return p.Graph.Hidden != nil && p.Graph.Hidden.Rows != graph.Logits
}

// Encoder reports whether hidden states are all that the program makes: there is no text to generate.
func (p *Program) Encoder() bool {
	last := p.Graph.Output.From
	_, selects := last.Op.(graph.SelectRows)
	return selects && last.In[0] == p.Graph.Hidden
}

// Ids is how many token ids the model has a row for.
func (p *Program) Ids() int {
	if n := tokenIDs(p.Graph); n > 0 {
		return n
	}
	return p.Vocab()
}

// AllIds is Ids of the model that the program is a part of.
func (p *Program) AllIds() int {
	if p.ids > 0 {
		return p.ids
	}
	return p.Ids()
}

// tokenIDs is how many rows a graph's table of token ids has; 0 when it has none.
func tokenIDs(g *graph.Graph) int {
	for _, n := range g.Nodes {
		if o, ok := n.Op.(graph.Embed); ok && !o.ByPosition && !o.BySegment {
			return n.Weights[0].Out.Len()
		}
	}
	return 0
}

// RunBody is Run without what turns hidden states into logits.
func (p *Program) RunBody(b *backend.Batch) error { return p.run(p.body.of(b), b) }

// Hidden copies n rows of the step's hidden states from row from on to dst, as F32; it waits for the step.
func (p *Program) Hidden(dst []float32, from, n int) error {
	return p.dev.Read(dst, p.Graph.Hidden, p.where[p.Graph.Hidden], from, n)
}
