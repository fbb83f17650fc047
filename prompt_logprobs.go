package ridge

import (
	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/engine/sample"
)

// promptLogprobs collects the log-probabilities of a prompt for the answers to it.
type promptLogprobs struct {
	prompt  []Sampled
	of      int // tokens
	answers []*answer
}

// scorePrompt has the first of the requests, which are for answers to one prompt, ask for the prompt's log-probabilities, which all answers get.
func scorePrompt(ids []int32, answers []*answer, requests []engine.Request) {
	if len(ids) == 0 {
		return // refused by the engine
	}
	p := &promptLogprobs{prompt: []Sampled{{Token: ids[0]}}, of: len(ids), answers: answers}
	requests[0].PromptLogprobs = p.take
	p.give()
}

// promptAlone is the requests to be made for answers without tokens: the first of them, which ends them all.
func promptAlone(answers []*answer, requests []engine.Request) []engine.Request {
	requests[0].MaxTokens, requests[0].Grammar = 0, nil
	requests[0].Done = func(f engine.Final) {
		for _, a := range answers {
			a.done(f)
		}
	}
	return requests[:1]
}

// take takes the next token's. The engine calls it.
func (p *promptLogprobs) take(_ int, c sample.Choice) {
	p.prompt = append(p.prompt, c)
	p.give()
}

// give hands them to the answers when they are complete.
func (p *promptLogprobs) give() {
	if len(p.prompt) < p.of {
		return
	}
	for _, a := range p.answers {
		a.queue.put(Piece{Prompt: p.prompt}, nil)
	}
}
