// Package capacity says what a model takes and what it gives on devices that need not be there: memory by purpose, how
// many sequences fit, how long a first token and the next ones take, what a million tokens cost, and which layout over
// which devices is the cheapest that is fast enough.
//
// Everything is read off the model's graph. A layout turns the graph into that of one device (see Layout.Rank): axes are
// cut, layers left out. Weights, cache and activations are then sums over that graph, and time is its price.
package capacity
