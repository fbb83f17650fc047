package serving

import (
	"context"
	"sync"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server/api"
)

// explanations keeps the explanations of the latest answers, by the id of their request (X-Request-Id, which is also in the
// answer's id).
type explanations struct {
	mu    sync.Mutex
	byID  map[string][]ridge.Explanation
	order [KeptExplanations]string // a ring of ids
	next  int
}

// KeptExplanations is the number of requests whose explanations are kept.
const KeptExplanations = 512

// keptAnswers is the most answers kept for one id, since clients choose ids.
const keptAnswers = 128

// put adds the explanation of one of a request's answers.
func (x *explanations) put(ctx context.Context, e ridge.Explanation) {
	id := api.RequestID(ctx)
	if id == "" {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.byID == nil {
		x.byID = map[string][]ridge.Explanation{}
	}
	if x.byID[id] == nil {
		delete(x.byID, x.order[x.next])
		x.order[x.next] = id
		x.next = (x.next + 1) % KeptExplanations
	}
	if len(x.byID[id]) < keptAnswers {
		x.byID[id] = append(x.byID[id], e)
	}
}

func (x *explanations) get(id string) []ridge.Explanation {
	x.mu.Lock()
	defer x.mu.Unlock()
	return append([]ridge.Explanation(nil), x.byID[id]...)
}

// Explanations returns the explanations of a request's answers.
func (s *Service) Explanations(id string) []ridge.Explanation { return s.explained.get(id) }
