package ridge

import (
	"time"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/price"
)

// Explanation is where the time of an answer went. The parts add up to Wall.
type Explanation struct {
	Wall   float64 `json:"wall_seconds"` // from the call to the last piece
	Parts  []Part  `json:"parts"`
	Prompt int     `json:"prompt_tokens"`
	Cached int     `json:"cached_tokens"` // of the prompt: not computed again
	// CachedHost, CachedDisk and CachedShared are those of the cached tokens that came from host memory, from a disk and from a folder that servers share.
	CachedHost   int `json:"cached_host_memory_tokens,omitempty"`
	CachedDisk   int `json:"cached_disk_tokens,omitempty"`
	CachedShared int `json:"cached_shared_tokens,omitempty"`
	CachedPeer   int `json:"cached_peer_tokens,omitempty"` // that another server has computed

	// Idle is how long stages of a pipeline had no step, for lack of other requests, while they were at this one's steps: their share of that time. It is in Parts.
	Idle float64 `json:"idle_stages_seconds,omitempty"`

	Saved float64 `json:"cached_seconds"` // what computing them would have taken
	// Stranded is the next tokens of the prompt that the cache had too, but without the state of recurrent layers, or the window, to go on from.
	Stranded int `json:"cached_without_state_tokens,omitempty"`
	Output   int `json:"output_tokens"`
	// Drafted is the tokens that were drafted for the answer, and Accepted those of them that became part of it.
	Drafted  int     `json:"draft_tokens,omitempty"`
	Steps    int     `json:"diffusion_steps,omitempty"` // in which the tokens of a masked diffusion model were found
	Accepted int     `json:"accepted_tokens,omitempty"`
	Floor    float64 `json:"floor_seconds"` // the least that prompt and answer take on this device: every kernel at the roofline, no other request; never more than Wall, which can be where the device was not calibrated
}

// Part is one thing that time went to.
type Part struct {
	What    string  `json:"what"`
	Seconds float64 `json:"seconds"`
	Share   float64 `json:"share"` // of Wall
}

// Explain says where the time of an answer went.
func (m *Model) Explain(f *Finish) Explanation {
	x := Explanation{Wall: f.Wall.Seconds(), Prompt: f.Prompt, Cached: f.Cached, Stranded: f.Stranded, Output: f.Output, Drafted: f.Drafted, Accepted: f.Accepted, Steps: f.Steps,
		CachedHost: f.Kept[KeptInMemory], CachedDisk: f.Kept[KeptOnDisk], CachedShared: f.Kept[KeptShared], CachedPeer: f.Kept[KeptAtPeer]}
	add := func(what string, d time.Duration) {
		if d > 0 {
			x.Parts = append(x.Parts, Part{what, d.Seconds(), d.Seconds() / max(x.Wall, 1e-9)})
		}
	}
	a := &f.account
	x.Idle = a.Idle.Seconds()
	add("template and tokenizing", f.Wall-a.Sum())
	add("queue", a.Queue)
	for c := range price.Causes {
		add("prefill: "+c.String(), a.Prefill[c])
	}
	for c := range price.Causes {
		add("decode: "+c.String(), a.Decode[c])
	}
	add("other requests in the batch", a.OtherRequests)
	add("preempted", a.Preempted)
	add("CPU overhead", a.Host)
	if m.price != nil {
		x.Saved = m.alone(0, f.Cached, m.price.Predict)
		x.Floor = min(m.alone(f.Cached, f.Prompt, m.price.Floor)+m.answerFloor(f), x.Wall) // rates that an answer has beaten are not the device's
	}
	return x
}

// alone is what reading tokens [from, to) of a prompt takes without other requests, in chunks of a step, s.
func (m *Model) alone(from, to int, of func(*graph.Step) float64) float64 {
	sum := 0.0
	for ; from < to; from += m.limits.Tokens {
		n := min(m.limits.Tokens, to-from)
		s := graph.Step{Seqs: []graph.Seq{{New: n, Past: from}}}
		if from+n == to {
			s.Logits = 1
		}
		sum += of(&s)
	}
	return sum
}

// answerFloor is the roofline of the answer's steps; a step's cost grows evenly with its context, so that the middle one
// speaks for all.
func (m *Model) answerFloor(f *Finish) float64 {
	steps := max(f.Output-1, 0)
	middle := graph.Step{Logits: 1, Seqs: []graph.Seq{{New: 1, Past: f.Prompt + steps/2}}}
	return float64(steps) * m.price.Floor(&middle)
}
