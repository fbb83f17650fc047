package ridge

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/engine/account"
	"github.com/ridge-llm/ridge/engine/sample"
	"github.com/ridge-llm/ridge/tokenizer"
)

// Piece is a part of an answer as it is made.
type Piece struct {
	Text string // whole characters; empty while one is incomplete or text may yet become a stop string
	// Prompt is the tokens of the prompt with their log-probabilities, each after those before it, in the first piece of an answer with Params.PromptLogprobs. The first has
	// none: it is 0.
	Prompt []Sampled
	Token  *Sampled // what was sampled; nil in the last piece of an answer that a stop string or end token cut
	Finish *Finish  // of the last piece
}

// Finish says how an answer ended.
type Finish struct {
	Reason   FinishReason    // FinishStop or FinishLength
	End      *Sampled        // the token that ended it, which is not in it; nil when something else did
	Stop     string          // the stop string that ended it; "" when something else did
	Prompt   int             // tokens
	Cached   int             // of them, found in the cache
	Kept     [keptPlaces]int // of those, that were kept beyond the cache: KeptInMemory, KeptOnDisk, KeptShared, KeptAtPeer
	Remote   *RemoteKV       // what another server that goes on is to be told; nil: Params.Remote asked for nothing
	Stranded int             // the next of them that it had too, but without the state of recurrent layers, or the window, to go on from
	Output   int             // tokens
	Drafted  int             // tokens that were drafted for the answer
	Accepted int             // of them, those that became part of it
	Steps    int             // steps of diffusion in which the tokens were found; 0: they came from left to right
	Prefill  time.Duration   // until the first token
	Decode   time.Duration   // from the first token to the last
	Wall     time.Duration   // from the call to the end
	account  account.Account // where it went; see Model.Explain
}

// Queued is how long the request waited for its first step.
func (f *Finish) Queued() time.Duration { return f.account.Queue }

// Generate continues a text. The tokens that the model expects before a text are added.
func (m *Model) Generate(ctx context.Context, prompt string, p Params) iter.Seq2[Piece, error] {
	return m.answer(ctx, p, func() ([]int32, error) { return m.EncodeInput(prompt, true) })
}

// GenerateEmbeddings continues a prompt of which the embeddings are given, [tokens, width] one row behind the other, in place of token ids: what the
// model's table of tokens has for them, scaled as the model scales it (vLLM's prompt_embeds). The width is the model's hidden size.
func (m *Model) GenerateEmbeddings(ctx context.Context, embeddings []float32, p Params) iter.Seq2[Piece, error] {
	return func(yield func(Piece, error) bool) {
		if m.width == 0 || len(embeddings) == 0 || len(embeddings)%m.width != 0 {
			yield(Piece{}, invalidRequest(fmt.Sprintf("the prompt is %d numbers of embeddings; the model's tokens have %d each, and there must be one at least", len(embeddings), m.width)))
			return
		}
		p.Embeddings = embeddings
		m.run(ctx, make([]int32, len(embeddings)/m.width), p, yield)
	}
}

// GenerateMany makes several answers to one prompt, given as token ids, which is computed once. All begin now (a beam search with the first piece that is read), whether or not their pieces are
// being read; ctx ends them all, leaving the loop over one ends that.
func (m *Model) GenerateMany(ctx context.Context, prompt []int32, all []Params) ([]iter.Seq2[Piece, error], error) {
	if len(all) > 0 && all[0].Beams != nil {
		return m.beams(ctx, prompt, all)
	}
	var answers []iter.Seq2[Piece, error]
	var made []*answer
	var requests []engine.Request
	for _, p := range all {
		a, r, err := m.prepare(prompt, p)
		if err != nil {
			return nil, err
		}
		answers, made, requests = append(answers, a.pieces), append(made, a), append(requests, r)
	}
	if len(requests) == 0 {
		return nil, nil
	}
	if all[0].PromptLogprobs {
		scorePrompt(prompt, made, requests)
	}
	if all[0].NoAnswer {
		requests = promptAlone(made, requests)
	}
	return answers, m.submit(ctx, requests[0], requests[1:]...)
}

// Text collects the answer of Generate or Chat.
func Text(pieces iter.Seq2[Piece, error]) (string, error) {
	var text string
	for p, err := range pieces {
		if err != nil {
			return text, err
		}
		text += p.Text
	}
	return text, nil
}

// answer runs one request and yields its pieces. Leaving the loop early ends the request.
func (m *Model) answer(ctx context.Context, p Params, prompt func() ([]int32, error)) iter.Seq2[Piece, error] {
	return func(yield func(Piece, error) bool) {
		ids, err := prompt()
		if err != nil {
			yield(Piece{}, err)
			return
		}
		m.run(ctx, ids, p, yield)
	}
}

// run runs one request and yields its pieces.
func (m *Model) run(ctx context.Context, ids []int32, p Params, yield func(Piece, error) bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if p.Beams != nil {
		found, err := m.beams(ctx, ids, []Params{p})
		if err != nil {
			yield(Piece{}, err)
			return
		}
		found[0](yield)
		return
	}
	a, r, err := m.prepare(ids, p)
	if err == nil {
		all := []engine.Request{r}
		if p.PromptLogprobs {
			scorePrompt(ids, []*answer{a}, all)
		}
		if p.NoAnswer {
			all = promptAlone([]*answer{a}, all)
		}
		err = m.submit(ctx, all[0])
	}
	if err != nil {
		yield(Piece{}, err)
		return
	}
	a.pieces(yield)
}

// prepare is an answer to a prompt, and what the engine is to be asked for it.
func (m *Model) prepare(ids []int32, p Params) (*answer, engine.Request, error) {
	if reflect.ValueOf(p.Sampling).IsZero() {
		p.Sampling = m.Defaults().Sampling
	}
	a, err := m.newAnswer(ids, p)
	if err != nil {
		return nil, engine.Request{}, err
	}
	r := a.request(m, ids, p)
	if a.remote, err = m.remote(p.Remote, &r); err != nil {
		return nil, engine.Request{}, err
	}
	if err := m.adapters.attach(&r, p.Adapters); err != nil {
		return nil, engine.Request{}, err
	}
	return a, r, p.Constraint.constrain(&r)
}

// answer turns the engine's tokens into pieces. Its methods are called by the engine.
type answer struct {
	queue   queue
	stream  *tokenizer.Stream
	stopper *sample.Stopper
	reason  sample.Reason // set by the stopper
	stop    string        // the stop string found
	prompt  int
	shared  bool      // see Model.sharedAlone
	remote  *RemoteKV // see Finish.Remote
	started time.Time
	first   time.Time
	last    time.Time
	left    atomic.Bool // the reader has stopped
}

func (m *Model) newAnswer(ids []int32, p Params) (*answer, error) {
	if p.MaxTokens < 0 {
		return nil, invalidRequest(fmt.Sprintf("MaxTokens (--max-tokens) is %d; 0 (no limit) or more is possible", p.MaxTokens))
	}
	stopper, err := sample.NewStopper(sample.Stop{Strings: p.Stop, Tokens: p.StopIDs, Include: p.IncludeStop, MaxTokens: m.room(ids, p)})
	if err != nil {
		return nil, invalidRequest(err.Error())
	}
	a := &answer{shared: m.sharedAlone, stream: m.tokenizer.NewStream(!p.Special), stopper: stopper, prompt: len(ids), started: time.Now()}
	a.queue.init()
	return a, nil
}

// room is how many tokens an answer may have: what was asked for, or what the context holds.
func (m *Model) room(ids []int32, p Params) int {
	room := max(m.context-len(ids), 1)
	if p.MaxTokens > 0 {
		room = min(room, p.MaxTokens)
	}
	return room
}

func (a *answer) request(m *Model, ids []int32, p Params) engine.Request {
	r := engine.Request{Prompt: ids, Params: p.Sampling, MaxTokens: m.room(ids, p), Priority: p.Priority, Salt: m.salt(&p), Shown: m.shown(&p), Diffusion: p.Diffusion, Embeddings: p.Embeddings, Emit: a.emit, Done: a.done}
	if p.MinTokens > 0 {
		r.Params.MinTokens, r.Params.Late = p.MinTokens, slices.Concat(m.ends, p.StopIDs)
	}
	if !p.IgnoreEnd || p.Constraint != nil { // a language has an end
		r.Ends = m.ends
	}
	return r
}

// emit takes the answer's next token; true ends the request.
func (a *answer) emit(c sample.Choice) bool {
	a.last = time.Now()
	if a.first.IsZero() {
		a.first = a.last
	}
	text := a.stopper.Push(c.Token, a.stream.Push(c.Token))
	c.Top = append([]sample.Logprob(nil), c.Top...) // the sampler's own until now
	a.queue.put(Piece{Text: text.Text, Token: &c}, nil)
	a.reason, a.stop = text.Reason, text.Match
	return text.Reason == sample.ReasonStop || a.left.Load()
}

// pieces yields the answer as it is made.
func (a *answer) pieces(yield func(Piece, error) bool) {
	defer a.left.Store(true)
	for {
		piece, err := a.queue.next()
		if !yield(piece, err) || err != nil || piece.Finish != nil {
			return
		}
	}
}

// done ends the answer.
func (a *answer) done(f engine.Final) {
	if f.Err != nil {
		a.queue.put(Piece{}, public(f.Err))
		return
	}
	finish := &Finish{Reason: f.Reason, End: f.End, Stop: a.stop, Prompt: a.prompt, Cached: f.Cached, Kept: placed(a.shared, f.Imported), Remote: a.remote, Stranded: f.Stranded, Output: f.Output, Drafted: f.Drafted, Accepted: f.Accepted, Steps: f.Steps, Wall: time.Since(a.started), account: f.Account}
	if !a.first.IsZero() {
		finish.Prefill, finish.Decode = a.first.Sub(a.started), a.last.Sub(a.first)
	}
	rest := ""
	if a.reason != sample.ReasonStop {
		rest = a.stopper.Flush() + a.stream.Flush()
	}
	a.queue.put(Piece{Text: rest, Finish: finish}, nil)
}
