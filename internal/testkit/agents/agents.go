// Package agents makes up conversations of agents with tools, for tests and benchmarks of the prefix cache.
package agents

import (
	"math/rand/v2"
	"slices"
)

// Turn is a request of a conversation: its prompt with the answer behind it, of which so many tokens are the answer.
type Turn struct {
	Prompt []int32
	Answer int
}

// Step is a request of a conversation, whose answer is not known before it was made: the conversation as it was after its first Keep requests (-1: all of them) and
// their answers, and new tokens behind that.
type Step struct {
	Conversation, Keep int
	News               []int32
	Answer             []int32 // in place of what a model answers, of as many tokens
}

// Steps is the requests of conversations with tools, in the order in which they come, of token ids below vocab, and what all conversations begin with: each request adds
// 20 to 5,000 new tokens. The conversations take turns by chance, and one time in five one goes back to an earlier request and on from there.
func Steps(conversations, turns int, vocab int32) (shared []int32, all []Step) {
	const instructions = 1500
	random := rand.New(rand.NewPCG(7, 8))
	text := func(n int) []int32 {
		words := make([]int32, n)
		for i := range words {
			words[i] = random.Int32N(vocab)
		}
		return words
	}
	shared = text(instructions)
	requests := make([]int, conversations)
	for range conversations * turns {
		s := Step{Conversation: random.IntN(conversations), Keep: -1}
		n := &requests[s.Conversation]
		if *n > 1 && random.IntN(5) == 0 {
			s.Keep = random.IntN(*n-1) + 1
			*n = s.Keep
		}
		*n++
		news := 20 + random.IntN(300) // of a user
		if random.IntN(3) > 0 {       // of a tool
			news = 200 + random.IntN(4800)
		}
		answer := 30 + random.IntN(400)
		s.News = text(news)
		s.Answer = text(answer)
		all = append(all, s)
	}
	return shared, all
}

// Conversations is what was said in each conversation so far.
type Conversations struct {
	said  [][]int32
	after [][]int // lengths after its requests, by conversation
}

// Begin is n conversations in which nothing was said but what they share.
func Begin(n int, shared []int32) *Conversations {
	c := &Conversations{said: make([][]int32, n), after: make([][]int, n)}
	for i := range c.said {
		c.said[i] = slices.Clip(shared)
	}
	return c
}

// Ask is the prompt of a step. The one before of its conversation was answered.
func (c *Conversations) Ask(s *Step) []int32 {
	said, after := &c.said[s.Conversation], &c.after[s.Conversation]
	if s.Keep >= 0 {
		*said, *after = slices.Clip((*said)[:(*after)[s.Keep-1]]), (*after)[:s.Keep]
	}
	*said = append(*said, s.News...)
	return slices.Clip(*said)
}

// Answered goes on with what the step's request was answered.
func (c *Conversations) Answered(s *Step, answer []int32) {
	said, after := &c.said[s.Conversation], &c.after[s.Conversation]
	*said = append(*said, answer...)
	*after = append(*after, len(*said))
}

// Turns is the prompts of Steps with the answers that they have.
func Turns(conversations, turns int, vocab int32) (all []Turn) {
	shared, steps := Steps(conversations, turns, vocab)
	c := Begin(conversations, shared)
	for i := range steps {
		s := &steps[i]
		c.Ask(s)
		c.Answered(s, s.Answer)
		all = append(all, Turn{slices.Clip(c.said[s.Conversation]), len(s.Answer)})
	}
	return all
}
