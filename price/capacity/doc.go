// Package capacity estimates what serving or training a model needs on any device, from its graph alone: memory by purpose,
// the batch that fits, TTFT and ITL, cost of a million tokens, and the cheapest layout over devices that meets an SLO.
//
// Everything is read off the model's graph. A layout turns the graph into that of one device (see Layout.Rank): axes are
// cut, layers left out. Weights, cache and activations are then sums over that graph, and time is its price.
package capacity
