// Package capacity estimates what serving or training a model needs on any device, from its graph alone: memory by purpose,
// the batch that fits, TTFT and ITL, cost of a million tokens, and the cheapest layout over devices that meets an SLO.
//
// Everything is read off the model's graph. Pass partition turns it into that of one device of a layout, with collective nodes.
// Weights, cache and activations are sums over that graph, and time is its price.
package capacity
