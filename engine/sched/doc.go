// Package sched decides which requests a step moves forward, and by how many tokens.
//
// There are no phases. A request has computed tokens, whose keys and values are in the cache, and a target: the tokens
// it knows, prompt and answer so far. A step gives each chosen request some of the tokens in between; one that reaches
// its target gets logits, and with the sampled token a target one further. That one rule covers a prompt read in
// chunks, a beginning found in the cache, a token at a time, several about which a grammar leaves no choice, and starting
// over after preemption.
//
// Schedule is pure: it looks at the queues, the pages and the price of a step, and writes down what to do. It reads no
// clock (the time is an argument), touches no device and changes nothing but the Schedule it fills. So the same function
// runs in the server, in the simulator and in replay. Commit then moves the requests between the queues.
//
// A schedule is made in this order:
//
//  1. running requests with few tokens left, the oldest first; if pages run out the newest is preempted
//  2. running requests in the middle of their prompt, in chunks, of what is left of the budget and the pages
//  3. waiting requests, in the policy's order, if nothing was preempted and all their tokens will have pages
//
// The engine's step is then (kv is package engine/kv; see the example):
//
//	state.Schedule(&schedule, cache, now)
//	state.Commit(&schedule)
//	e.reserve()  // kv: free the preempted; open, append and publish the chosen
//	e.launch()   // slots and tables go into the batch, which the device gets
//	e.collect()  // tokens sampled from its logits: Target++ or state.Remove
package sched
