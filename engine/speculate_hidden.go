package engine

import "github.com/ridge-llm/ridge/engine/draft"

// followed is for how many steps after one with drafts a drafter that goes on from hidden states takes in those that nothing is drafted from. Beyond
// them its cache has gaps, and what it drafts is worse; to follow always would cost its layer in every step.
const followed = 16

// follows reports whether a drafter that is asked for nothing goes on from hidden states and is to take in those of the last step, such as a prompt's.
func (s *speculation) follows(d *drafter) bool {
	_, hidden := d.Drafter.(draft.FromHidden)
	return hidden && len(s.computed) > 0 && (s.always || d.quiet < followed)
}

// computedBy tells drafters that go on from hidden states whose the step has left on the device, if the next step has not been launched,
// which overwrites them.
func (s *speculation) computedBy(f, next *InFlight) {
	wanted := false
	if s.fromHidden(func(*drafter, draft.FromHidden) { wanted = true }); !wanted || next != nil {
		return
	}
	all, outputs := s.computed[:0], f.outputs
	for i := range f.requests {
		a := &f.requests[i]
		c := draft.Computed{ID: a.request.sched.ID, Salt: a.request.Salt, Tokens: a.request.tokens, From: a.from, Last: -1}
		for row := range a.tokens {
			c.Rows = append(c.Rows, f.batch.QStart[i]+int32(row))
		}
		if len(outputs) > 0 && outputs[0].request == a.request {
			outputs[0].addTo(&c)
			outputs = outputs[1:]
		}
		if !a.request.ended && a.request.Hidden == nil && a.request.Embeddings == nil { // of those nothing is drafted
			all = append(all, c)
		}
	}
	for i := range outputs { // of siblings
		c := draft.Computed{ID: outputs[i].request.sched.ID, Salt: outputs[i].request.Salt, Tokens: outputs[i].request.tokens}
		if outputs[i].addTo(&c); !outputs[i].request.ended {
			all = append(all, c)
		}
	}
	s.computed = all
	s.fromHidden(func(_ *drafter, h draft.FromHidden) { h.Computed(all) })
}

// addTo adds the rows of accepted tokens of a draft to what the step has computed.
func (o *output) addTo(c *draft.Computed) {
	if c.Last = o.last; c.Last >= 0 {
		c.Last += o.row
	}
	if o.rows <= 1 || len(c.Rows) == 0 {
		return
	}
	root := c.Rows[len(c.Rows)-1]
	for i, accepted := range o.path[:o.rows-1] {
		if accepted {
			c.Rows = append(c.Rows, root+1+int32(i))
		}
	}
}

// hiddenGone tells drafters that hidden states are overwritten by the step that begins.
func (s *speculation) hiddenGone() {
	s.computed = s.computed[:0]
	s.fromHidden(func(_ *drafter, h draft.FromHidden) { h.Computed(nil) })
}
