package loadgen

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/ridge-llm/ridge/internal/trace"
)

// Counter counts the tokens of a text as the server's model does, with those that it puts around it.
type Counter func(ctx context.Context, text string) (int, error)

// writer writes prompts of a wished number of tokens. It joins words that are one token each, with a space before
// them; where it cannot know them, words of which it knows how many tokens they are on average.
type writer struct {
	trace   *trace.Trace
	client  *client
	seed    uint64
	words   []string
	perWord float64 // tokens
	around  float64 // tokens that are not of the words: BOS, and what a chat template adds
}

// asked is a request ready to be sent.
type asked struct {
	body   []byte
	tokens int // of the answer
}

// enough is how many words of one token a tokenizer must have for prompts of them to be worth it.
const enough = 32

func newWriter(ctx context.Context, c *client, o *Options) (*writer, error) {
	w := &writer{trace: o.Trace, client: c, seed: o.Seed, words: strings.Fields(commonWords)}
	count := o.Count
	if count == nil {
		count = c.tokenize
	}
	if err := w.pick(ctx, count); err == nil {
		return w, nil
	} else if o.Count != nil || ctx.Err() != nil {
		return nil, fmt.Errorf("loadgen: counting tokens: %w", err)
	}
	if err := w.measure(ctx); err != nil {
		return nil, fmt.Errorf("loadgen: %s can neither tokenize nor say how many tokens a prompt had, so that prompts cannot be made of the right length: %w", c.base, err)
	}
	o.Note("the server cannot tokenize; prompts are of words of %.2f tokens on average", w.perWord)
	return w, nil
}

// pick keeps the words that are one token each. If they are too few it keeps all, and counts what they are on average.
func (w *writer) pick(ctx context.Context, count Counter) error {
	const before = " the"
	base, err := count(ctx, before)
	if err != nil {
		return err
	}
	var single []string
	for _, word := range w.words {
		n, err := count(ctx, before+" "+word)
		if err != nil {
			return err
		}
		if n == base+1 {
			single = append(single, word)
		}
	}
	if len(single) >= enough {
		w.words = single
	}
	return w.fit(func(text string) (int, error) { return count(ctx, text) })
}

// measure learns from two short requests how long words are.
func (w *writer) measure(ctx context.Context) error {
	return w.fit(func(text string) (int, error) {
		r := w.client.ask(ctx, w.ask(text, 1, ""), time.Now())
		if r.Err == nil && r.Input == 0 {
			r.Err = fmt.Errorf("the answer has no usage")
		}
		return r.Input, r.Err
	})
}

// fit finds perWord and around from texts of all words once and twice.
func (w *writer) fit(count func(string) (int, error)) error {
	once := " " + strings.Join(w.words, " ")
	a, err := count(once)
	if err != nil {
		return err
	}
	b, err := count(once + once)
	if err != nil {
		return err
	}
	if b <= a {
		return fmt.Errorf("%d words are %d tokens, and twice as many %d", len(w.words), a, b)
	}
	w.perWord = float64(b-a) / float64(len(w.words))
	w.around = float64(2*a - b)
	return nil
}

// prompt is the text of request i: Segments of one ID are the same words.
func (w *writer) prompt(i int) string {
	if text := w.trace.Requests[i].Prompt; text != "" {
		return text
	}
	var b strings.Builder
	tokens, words := -w.around, 0
	for _, s := range w.trace.Segments(i) {
		tokens += float64(s.Tokens)
		want := int(math.Round(tokens / w.perWord))
		for j := 0; words < want; j++ {
			b.WriteByte(' ')
			b.WriteString(w.words[trace.Scramble(w.seed, s.ID, uint64(j))%uint64(len(w.words))])
			words++
		}
	}
	if b.Len() == 0 {
		return " " + w.words[0] // what is around is already longer than the prompt should be
	}
	return b.String()
}

// request is request i of the trace.
func (w *writer) request(i int) asked {
	r := &w.trace.Requests[i]
	return w.ask(w.prompt(i), r.Output, r.Session)
}

// warmUp is a request that does not count.
func (w *writer) warmUp() asked { return w.ask(" "+strings.Join(w.words[:enough/2], " "), 2, "") }

// ask is a request for an answer of exactly so many tokens.
func (w *writer) ask(prompt string, tokens int, session string) asked {
	body := map[string]any{
		"model": w.client.model, "max_tokens": tokens, "temperature": 0, "stream": true, "ignore_eos": true,
		"stream_options": map[string]bool{"include_usage": true},
	}
	if w.client.chat {
		body["messages"] = []map[string]string{{"role": "user", "content": prompt}}
	} else {
		body["prompt"] = prompt
	}
	if session != "" {
		body["user"] = session
	}
	data, err := json.Marshal(body)
	if err != nil {
		panic(err) // maps of strings and numbers
	}
	return asked{data, tokens}
}

// tokenize is a Counter that asks the server, in the words of vLLM and Ridge (prompt) and in llama-server's (content).
func (c *client) tokenize(ctx context.Context, text string) (int, error) {
	var reply struct {
		Tokens []json.RawMessage `json:"tokens"`
	}
	err := c.call(ctx, "/tokenize", map[string]any{"model": c.model, "prompt": text, "content": text, "add_special": true}, &reply)
	if err == nil && len(reply.Tokens) == 0 {
		err = fmt.Errorf("%s/tokenize answers without tokens", c.base)
	}
	return len(reply.Tokens), err
}
