package engine

import "github.com/ridge-llm/ridge/engine/draft"

// followed is for how many steps after one with drafts a drafter that goes on from hidden states takes in those that nothing is drafted from. Beyond
// them its cache has gaps, and what it drafts is worse; to follow always would cost its layer in every step.
const followed = 16

// follow has a drafter that goes on from hidden states take in those of the last step, such as a prompt's.
func (s *speculation) follow() {
	if _, ok := s.Drafter.(draft.FromHidden); !ok || len(s.computed) == 0 || !s.Always && s.quiet >= followed {
		return
	}
	if err := s.ask(); err != nil {
		s.stop(err)
	}
}

// computedBy tells a drafter that goes on from hidden states whose the step has left on the device, if the next step has not been launched,
// which overwrites them.
func (s *speculation) computedBy(f, next *InFlight) {
	d, ok := s.Drafter.(draft.FromHidden)
	if !ok || next != nil {
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
	d.Computed(all)
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

// hiddenGone tells a drafter that hidden states are overwritten by the step that begins.
func (s *speculation) hiddenGone() {
	if d, ok := s.Drafter.(draft.FromHidden); ok {
		s.computed = s.computed[:0]
		d.Computed(nil)
	}
}
