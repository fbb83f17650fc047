package compile

import (
	"fmt"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
)

// Part makes a program of a graph with this program's weights and caches, by their names: some of its layers (graph.Segment), fused by the same passes. It has memory
// of its own for activations alone, and must be closed before this one.
func (p *Program) Part(g *graph.Graph, files Tensors) (*Program, error) {
	part := &Program{limits: p.limits, dev: p.dev, groups: groupsOf(g, p.groups), where: map[*graph.Value]backend.Buffer{}, pages: map[*graph.Cache]backend.Buffer{}}
	if err := p.share(part, g); err != nil {
		return nil, err
	}
	if err := part.layOut(nil, files); err != nil {
		part.Close()
		return nil, err
	}
	return part, nil
}

// share gives a part its graph, weights and caches.
func (p *Program) share(part *Program, g *graph.Graph) (err error) {
	if part.Graph, err = part.unfuse(g); err != nil {
		return err
	}
	if part.weights, err = shared(part.Graph, p.weights); err != nil {
		return fmt.Errorf("compile: %w", err)
	}
	for _, c := range part.Graph.Caches {
		for own, pages := range p.pages {
			if own.Name == c.Name {
				part.pages[c] = pages
			}
		}
		if _, ok := part.pages[c]; !ok {
			return fmt.Errorf("compile: graph %s has cache %s, which graph %s has not", g.Name, c.Name, p.Graph.Name)
		}
	}
	return nil
}
