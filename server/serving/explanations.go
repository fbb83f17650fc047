package serving

import (
	"context"
	"sync"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server/access"
	"github.com/ridge-llm/ridge/server/api"
)

// explanations keeps the explanations of the latest answers, by the id of their request (X-Request-Id, which is also in the
// answer's id).
type explanations struct {
	mu    sync.Mutex
	byID  map[explainedID][]ridge.Explanation
	order [KeptExplanations]explainedID // a ring
	next  int
}

// explainedID is the id of a tenant's request. Clients choose ids: two tenants may have the same.
type explainedID struct{ tenant, id string }

// KeptExplanations is the number of requests whose explanations are kept.
const KeptExplanations = 512

// keptAnswers is the most answers kept for one id, since clients choose ids.
const keptAnswers = 128

// put adds the explanation of one of a request's answers.
func (x *explanations) put(ctx context.Context, e ridge.Explanation) {
	id := explainedID{access.From(ctx).Salt(), api.RequestID(ctx)}
	if id.id == "" {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.byID == nil {
		x.byID = map[explainedID][]ridge.Explanation{}
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

func (x *explanations) get(id explainedID) []ridge.Explanation {
	x.mu.Lock()
	defer x.mu.Unlock()
	return append([]ridge.Explanation(nil), x.byID[id]...)
}

// Explanations returns the explanations of the answers of a request, if ctx is of the same tenant.
func (s *Service) Explanations(ctx context.Context, id string) []ridge.Explanation {
	return s.explained.get(explainedID{access.From(ctx).Salt(), id})
}
