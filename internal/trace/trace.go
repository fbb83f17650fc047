// Package trace holds requests as they arrived somewhere, or as they might: when, how long their prompts and answers are, and
// what their prompts have in common. It reads the traces that others publish (azure.go, mooncake.go, aibrix.go) and makes
// up arrivals from a line of text (spec.go).
package trace

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"
)

// Request is one request of a trace.
type Request struct {
	At      time.Duration // arrival, since the trace began
	Input   int           // tokens of the prompt, at least 1
	Output  int           // tokens of the answer, at least 1
	Blocks  []uint64      // what the prompt consists of, in blocks of Trace.BlockSize tokens; none: text of its own
	Session string        // the client or conversation; may be empty
	Prompt  string        // the text itself, where the trace has it
}

// Trace is requests in the order of their arrival, the first at 0.
type Trace struct {
	Name      string // for people: the file's name, or the spec
	Requests  []Request
	BlockSize int // tokens of a block; 0: no request has blocks
	Shared    int // tokens that all prompts without blocks begin with in common
}

// MaxTokens is the longest prompt or answer that a trace may have: beyond all models, and small enough that sums do not overflow.
const MaxTokens = 1 << 24

// maxTime bounds arrivals, so that they can be scaled and added.
const maxTime = 10 * 365 * 24 * time.Hour

// Load reads the trace that a file holds, or makes the one that a spec such as "poisson:rate=4,n=200,in=512,out=128"
// describes. Whatever begins with the name of a process and a colon is a spec.
func Load(source string) (*Trace, error) {
	if kind, _, ok := strings.Cut(source, ":"); ok && processes[kind] != nil {
		return Spec(source)
	}
	f, err := os.Open(source)
	if err != nil {
		return nil, fmt.Errorf("trace: %w; a trace is a file or begins with %s", err, processNames())
	}
	defer f.Close()
	return Read(source, f)
}

// arrange puts requests in order and lets the first arrive at 0. Requests of one time keep their order.
func (t *Trace) arrange() {
	slices.SortStableFunc(t.Requests, func(a, b Request) int { return cmp.Compare(a.At, b.At) })
	if len(t.Requests) == 0 {
		return
	}
	for first, i := t.Requests[0].At, 0; i < len(t.Requests); i++ {
		t.Requests[i].At -= first
	}
}

// First is the first n requests; all, if there are fewer.
func (t *Trace) First(n int) *Trace {
	c := *t
	c.Requests = t.Requests[:min(n, len(t.Requests))]
	return &c
}

// Faster is the trace with x times as many requests a second; x is above 0 and may be below 1.
func (t *Trace) Faster(x float64) (*Trace, error) {
	if !(x >= 1e-3 && x <= 1e6) {
		return nil, fmt.Errorf("trace: arrivals cannot be %g times as fast; 0.001 to 1000000 is possible", x)
	}
	c := *t
	c.Requests = slices.Clone(t.Requests)
	for i := range c.Requests {
		c.Requests[i].At = time.Duration(min(float64(c.Requests[i].At)/x, float64(maxTime)))
	}
	return &c, nil
}

// Shorter is the trace with the lengths of prompts, answers and blocks divided by k, at least 1 token each. Texts are lost.
func (t *Trace) Shorter(k float64) (*Trace, error) {
	if !(k >= 1e-3 && k <= 1e6) {
		return nil, fmt.Errorf("trace: lengths cannot be divided by %g; 0.001 to 1000000 is possible", k)
	}
	scale := func(n int) int {
		return int(min(max(math.Round(float64(n)/k), 1), MaxTokens))
	}
	c := *t
	c.Requests = slices.Clone(t.Requests)
	if t.BlockSize > 0 {
		c.BlockSize = scale(t.BlockSize)
	}
	if t.Shared > 0 {
		c.Shared = scale(t.Shared)
	}
	for i := range c.Requests {
		r := &c.Requests[i]
		r.Input, r.Output, r.Prompt = scale(r.Input), scale(r.Output), ""
	}
	return &c, nil
}

// Clip is the trace with prompts, and then answers, cut so that both together have at most so many tokens, which a
// model's context may demand; clipped is how many requests that changed. A prompt keeps at least 1 token, and
// an answer what it asked for if there is room, or else half of the context.
func (t *Trace) Clip(context int) (c *Trace, clipped int, err error) {
	if context < 2 {
		return nil, 0, fmt.Errorf("trace: prompt and answer cannot be cut to %d tokens together; 2 or more is possible", context)
	}
	c = new(*t)
	c.Requests = slices.Clone(t.Requests)
	for i := range c.Requests {
		r := &c.Requests[i]
		if r.Input+r.Output <= context {
			continue
		}
		clipped++
		r.Output = min(r.Output, max(context/2, context-r.Input))
		r.Input = min(r.Input, context-r.Output)
		r.Prompt = ""
	}
	return c, clipped, nil
}
