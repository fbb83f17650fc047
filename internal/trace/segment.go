package trace

// Segment is a part of a prompt. Segments of one ID are the same text: the shorter is how the longer begins.
type Segment struct {
	ID     uint64
	Tokens int
}

// IDs of segments that are not blocks. Readers refuse blocks with IDs this high.
const (
	sharedID = 1 << 63
	ownID    = 1 << 62 // plus the request's place in the trace
)

// Segments is what the prompt of request i consists of, Input tokens in all: what all share, its blocks, and what only it has.
func (t *Trace) Segments(i int) []Segment {
	r := &t.Requests[i]
	left := r.Input
	var all []Segment
	add := func(id uint64, tokens int) {
		if tokens = min(tokens, left); tokens > 0 {
			all = append(all, Segment{id, tokens})
			left -= tokens
		}
	}
	if len(r.Blocks) == 0 {
		add(sharedID, t.Shared)
	}
	for _, b := range r.Blocks {
		add(b, t.BlockSize)
	}
	add(ownID+uint64(i), left)
	return all
}
