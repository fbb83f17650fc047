// Package agents makes up conversations of agents with tools, for tests of the prefix cache.
package agents

import "math/rand/v2"

// Turn is a request of a conversation: its prompt with the answer behind it, of which so many tokens are the answer.
type Turn struct {
	Prompt []int32
	Answer int
}

// Turns is the requests of conversations with tools, in the order in which they come, of token ids below vocab: each prompt is what was said so far and 20 to 5,000
// new tokens. The conversations share a beginning, take turns by chance, and one time in five one goes back to an earlier request and on from there.
func Turns(conversations, turns int, vocab int32) (all []Turn) {
	const instructions = 1500
	random := rand.New(rand.NewPCG(7, 8))
	text := func(n int) []int32 {
		words := make([]int32, n)
		for i := range words {
			words[i] = random.Int32N(vocab)
		}
		return words
	}
	shared := text(instructions)
	said := make([][]int32, conversations)  // by conversation
	earlier := make([][]int, conversations) // lengths after its requests
	for range conversations * turns {
		c := random.IntN(conversations)
		if said[c] == nil {
			said[c] = append(text(0), shared...)
		}
		if n := len(earlier[c]); n > 1 && random.IntN(5) == 0 {
			back := random.IntN(n - 1)
			said[c], earlier[c] = said[c][:earlier[c][back]:earlier[c][back]], earlier[c][:back+1]
		}
		news := 20 + random.IntN(300) // of a user
		if random.IntN(3) > 0 {       // of a tool
			news = 200 + random.IntN(4800)
		}
		answer := 30 + random.IntN(400)
		said[c] = append(said[c], text(news)...)
		said[c] = append(said[c], text(answer)...)
		all = append(all, Turn{said[c][:len(said[c]):len(said[c])], answer})
		earlier[c] = append(earlier[c], len(said[c]))
	}
	return all
}
