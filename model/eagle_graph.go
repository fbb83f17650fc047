package model

import (
	"fmt"

	"github.com/ridge-llm/ridge/graph"
)

// Combine is the graph that makes one row of hidden states, which it keeps, of those of EAGLE-3's layers; nil: there is one.
func (e *Eagle) Combine(o Options) (*graph.Graph, error) {
	if !e.Three {
		return nil, nil
	}
	b := graph.NewBuilder("eagle3 fc", e.Lookup, o.Act, o.Cache)
	hidden := e.own.Config.hidden()
	var parts []*graph.Value
	for i := range e.Layers {
		parts = append(parts, b.Input(fmt.Sprintf("hidden%d", i), hidden))
	}
	sum := product(b, "fc", hidden, e.bias(b, "fc", hidden), parts...)
	b.Keep(sum)
	return b.Finish(b.SelectRows("selected", sum))
}

// bias is the bias of a product, if the file has one.
func (e *Eagle) bias(b *graph.Builder, name string, out graph.Axis) *graph.Weight {
	if _, ok := e.own.tensor(name + ".bias"); !ok {
		return nil
	}
	return b.Vector(name+".bias", out)
}

// product is a matrix with inputs that lie one behind the other.
func product(b *graph.Builder, name string, out graph.Axis, bias *graph.Weight, in ...*graph.Value) *graph.Value {
	var sum *graph.Value
	from := 0
	for i, x := range in {
		y := b.Linear(fmt.Sprintf("%s.%d", name, i), x, b.WeightColumns(name+".weight", from, out, x.Axis), bias)
		if from += x.Axis.Len(); sum != nil {
			y = b.Add(name, sum, y)
		}
		sum, bias = y, nil
	}
	return sum
}

// Graph is the layer. Its rows are tokens, each with the hidden state of the token before it as input; logits are of the token after, of the
// drafter's vocabulary. It keeps the rows that stand for the target's hidden states when it goes on from a token that it has predicted.
func (e *Eagle) Graph(o Options) (*graph.Graph, error) {
	c := e.own.Config
	b := graph.NewBuilder("eagle", e.Lookup, o.Act, o.Cache)
	l := newLayer(b, c, 0)
	state := b.Input("hidden", c.hidden())
	sum, attended := e.attention(l, embedding(b, c), state)
	sum = l.add("attn_sum", sum, attended)
	x := l.add("ffn_sum", sum, l.feedForward(l.norm("ffn_norm", sum)))
	b.Keep(x)
	b.Layer(graph.NoLayer)
	x = b.SelectRows("selected", x)
	if e.Three {
		x = norm(b, c, "output_norm", x)
	}
	vocab := graph.Axis{Name: "vocab", Count: e.DraftVocab, Size: 1}
	return b.Finish(b.Linear("logits", x, b.Weight("output.weight", vocab, c.hidden()), nil))
}

// attention is the layer's attention block, and what its result is added to.
func (e *Eagle) attention(l layer, token, state *graph.Value) (sum, attended *graph.Value) {
	c := l.c
	if !e.Three {
		sum = product(l.b, "fc", c.hidden(), e.bias(l.b, "fc", c.hidden()), token, state)
		x := sum
		if l.b.Has(l.name("attn_norm.weight")) {
			x = l.norm("attn_norm", sum)
		}
		return sum, l.selfAttention(x)
	}
	token, normed := l.norm("attn_norm", token), l.norm("hidden_norm", state)
	of := func(stem string, out graph.Axis) *graph.Value {
		return product(l.b, l.name(stem), out, l.bias(stem, out, c.QKVBias), token, normed)
	}
	if sum = state; e.normedResidual {
		sum = normed
	}
	return sum, l.attend(of("attn_q", c.heads()), of("attn_k", c.kv()), of("attn_v", c.kv()))
}
