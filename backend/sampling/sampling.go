// Package sampling says how one token is sampled from a row of logits, for devices that sample where the logits lie. A Sample
// is all that the choice depends on, numbers only, so that it can be sent to a device; Reference is what each number means, in a
// few lines of Go that are not meant to be fast. engine/sample keeps the requests' states and makes Samples of them.
package sampling

// MaxTop is how many of the likeliest tokens a Sample may ask for.
const MaxTop = 20

// Sample is one token to be sampled. The steps and their order are those of package engine/sample: mask, edits, greedy or
// temperature, min-p, top-k, top-p, typical-p, and the token at which the weights, summed from the likeliest down, reach
// the part U of all that are left. Of equal logits the lower id is the likelier.
type Sample struct {
	Row int // of the step's logits; several Samples may have the same

	Temperature          float64 // 0: the likeliest token is chosen and nothing below matters but Mask, Edits and Logprob
	TopK                 int     // 0: all
	TopP, MinP, TypicalP float64 // 1, 0 and 1: all
	U                    float64 // the random number, in [0, 1)

	Mask  []uint32 // bit i%32 of word i/32 is set if token i may be chosen; nil: all may
	Edits []Edit   // of distinct tokens
	// Repetition (> 0), Frequency and Presence are the penalties of tokens that Edits says have been seen.
	Repetition, Frequency, Presence float32
	// Future is the index of the previous step's sample whose token counts as seen, and counted, once more than Edits
	// says: it was not known when this Sample was made. -1: none.
	Future int

	Logprob bool // report the token's log-probability in the row as the model gave it
	Top     int  // and those of so many of the likeliest, up to MaxTop
}

// Edit changes the logit of one token: Add (−Inf: it cannot be chosen), then the penalties.
type Edit struct {
	ID            int32
	Add           float32
	Seen, Counted int32 // times that repetition, and that frequency and presence, look at
}

// Result is the token that was sampled.
type Result struct {
	Token   int32
	Failure Failure
	Logprob float32   // if asked for
	Top     []Logprob // likeliest first
}

// Logprob is a token and the natural logarithm of its probability.
type Logprob struct {
	Token   int32
	Logprob float32
}

// Failure says why a row gives no token.
type Failure int32

// Failures.
const (
	None     Failure = iota
	Empty            // nothing may be chosen: every logit is −Inf or NaN, or mask and edits exclude all
	Infinite         // the logit of Token is +Inf
)

// Apply is the logit of an edited token.
func (s *Sample) Apply(e Edit, x float32) float32 {
	x += e.Add
	if e.Seen > 0 {
		if x > 0 {
			x /= s.Repetition
		} else {
			x *= s.Repetition
		}
	}
	if e.Counted > 0 {
		x -= float32(s.Frequency*float32(e.Counted)) + s.Presence
	}
	return x
}
