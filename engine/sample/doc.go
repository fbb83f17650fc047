// Package sample turns one row of logits into one token, and decides when a text is finished.
//
// A request owns a State (its Params and the tokens it has seen); a goroutine that samples owns a Sampler (scratch
// memory). The engine calls, for every row that a step picked:
//
//	choice, err := sampler.Sample(logits, state, mask) // logits: [vocab] float32, overwritten
//	state.Observe(choice.Token)
//	piece := stopper.Push(choice.Token, text)          // text: what the token added to the answer
//
// The steps and their order are vLLM's, so that the same settings mean the same thing:
//
//	logprobs         log-softmax of the untouched row, if asked for
//	mask, bias       allowed and banned ids and the grammar's mask to −Inf, then logit_bias is added
//	penalties        repetition: prompt and output; frequency, presence: output only
//	greedy           temperature 0 ends here: the likeliest token, the lowest id of equals
//	temperature      logits / temperature
//	min-p            drop tokens less likely than min_p × the likeliest
//	top-k            keep the k likeliest
//	top-p            of what is left, keep the likeliest until they reach the mass top_p
//	typical-p        of what is left, keep the most typical until they reach the mass typical_p
//	draw             one token, by a random number that depends on (seed, index of the output token) alone
//
// With one of llama.cpp's own samplers on (Params.Chained) the order is llama.cpp's from the penalties on, and the
// filters look at probabilities before temperature:
//
//	dry              lower what would go on with a repetition, behind the penalties
//	top-nσ           keep the logits within n standard deviations of the highest
//	top-k, typical-p, top-p, min-p
//	xtc              now and then leave out the likeliest but the last above a threshold
//	temperature      fixed, or by the entropy of what is left; 0 leaves the likeliest
//	draw
//
// Params.Samplers leaves some of them out, or gives them another order. Mirostat has temperature alone before it, and
// draws itself.
//
// The draw's line is what makes a request's text independent of the requests that share its batch. "Likeliest" orders
// by logit, then by the lower id, so that every step has exactly one result.
package sample
