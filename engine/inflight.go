package engine

import (
	"slices"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/sampling"
	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/engine/sample"
	"github.com/ridge-llm/ridge/graph"
)

// InFlight is a step from its launch to the collection of its tokens. Its memory is used again two steps later.
type InFlight struct {
	requests []advance // in the order of the batch's sequences
	batch    backend.Batch
	outputs  []output          // of the requests that are to get tokens, then of siblings that are to join them
	prompts  []promptRow       // of the logits, that predict tokens of prompts
	samples  []sampling.Sample // that a device is asked for
	results  []sampling.Result // one for each of samples
	idle     float64           // the part of a pipeline's stages that had no step while its last one was at this
	deferred bool              // it is sampled from only when the previous step has been collected

	drafts   Step // what a Step says of the drafts that the step verifies
	size     graph.Step
	launched time.Time     // when the device was given the step or, if that is later, had done the previous one
	ready    time.Time     // when its tokens, or the logits to sample them from, were there
	worked   time.Duration // that the device worked on it
	drafting time.Duration // before it, with nothing for the device to do
}

// advance moves a request some tokens forward.
type advance struct {
	request *request
	from    int // position of the first token
	tokens  int
	row     int // of the step's logits: the first that is its own
	rows    int // how many are; 0 in the middle of a prompt
	drafted int // tokens of request.draft, which come after the others
}

// output is what one request gets from a step: no token, one or several.
type output struct {
	request  *request
	parent   *request // not nil: request is a sibling of parent, and samples from the same row
	position int      // of the first token: as many tokens were known, or in flight, when the step was launched
	row      int      // of the step's logits
	rows     int      // of the step's logits: 1, and one for each token of the request's draft
	assumed  int      // tokens that the next step takes for granted

	// Set by the sampler.
	first   int       // index of the first of its samples; -1: none
	sampled int       // tokens that were sampled, one a row
	logits  []float32 // [rows, vocab], where the host samples

	accepted int                    // tokens of the draft that came
	inOrder  int                    // of them, those whose rows lie one behind the other from the first on
	last     int                    // row that the last token was sampled from; -1: it was not
	path     [draft.MaxTokens]bool  // tokens of the draft that came
	watched  bool                   // after is set
	after    [draft.MaxTokens]int32 // what the model has after the tokens of the draft's window
	emitted  int                    // tokens handed to the owner, those that a grammar forces included
	reason   sample.Reason
	err      error
}

// buffers are the steps that can be in flight: two, or one for each stage of a pipeline.
type buffers []*InFlight

// other is a buffer that is neither current nor one of those behind it, emptied.
func (b *buffers) other(current *InFlight, behind []*InFlight) *InFlight {
	var f *InFlight
	for _, f = range *b {
		if f != current && !slices.Contains(behind, f) {
			break
		}
		f = nil
	}
	if f == nil {
		f = &InFlight{}
		*b = append(*b, f)
	}
	f.requests, f.outputs, f.samples, f.deferred = f.requests[:0], f.outputs[:0], f.samples[:0], false
	f.prompts, f.drafts, f.idle, f.drafting = f.prompts[:0], Step{}, 0, 0
	return f
}

// expect lists what the step's requests, and their siblings, are to get from it: at most so many outputs.
func (f *InFlight) expect(most int) {
	for i := range f.requests {
		a := &f.requests[i]
		if a.rows > 0 && a.request.answers() {
			f.outputs = append(f.outputs, output{request: a.request, position: a.request.known(), row: a.row, rows: a.rows, assumed: 1, first: -1, last: -1})
			a.request.pending++
		}
	}
	for i := range f.requests {
		a := &f.requests[i]
		for _, s := range a.request.siblings {
			if a.rows > 0 && len(f.outputs) < most {
				f.outputs = append(f.outputs, output{request: s, parent: a.request, position: len(s.tokens), row: a.row, rows: 1, assumed: 1, first: -1, last: -1})
				s.pending = 1
			}
		}
	}
}

// void reports whether the output is not wanted any more: its request has ended, or the token that comes next is another one than
// that which was sampled, because the previous step brought more tokens than one, as those that a grammar forces, or fewer.
func (o output) void() bool {
	return o.request.ended || o.position != len(o.request.tokens) || o.parent != nil && o.parent.ended
}

// known is how many tokens of the request are known, or are in flight: sampled by launched steps.
func (r *request) known() int { return len(r.tokens) + r.pending }

// tokenAt is the token at a position, or the placeholder of one in flight.
func (r *request) tokenAt(p int) int32 {
	if p < len(r.Prompt) && r.denoising.unseen() {
		return r.denoising.model.Mask
	}
	if p < len(r.tokens) {
		return r.tokens[p]
	}
	if r.Forced != nil {
		return r.forcedAt(p - len(r.tokens))
	}
	return int32(-1 - (r.future + p - len(r.tokens)))
}
