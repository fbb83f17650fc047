package server

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"github.com/ridge-llm/ridge"
)

// idKey is under which a request's context has its id.
type idKey struct{}

// explanations keeps what was said of the answers of late, by the id of their request (X-Request-Id, which is also in the
// answer's id).
type explanations struct {
	mu    sync.Mutex
	byID  map[string][]ridge.Explanation
	order [keptExplanations]string // a ring of ids
	next  int
}

// keptExplanations is of how many requests there are explanations.
const keptExplanations = 512

// keptAnswers is how many answers of one id are explained: ids are the clients' to choose.
const keptAnswers = 128

// put adds the explanation of one of a request's answers.
func (x *explanations) put(ctx context.Context, e ridge.Explanation) {
	id, _ := ctx.Value(idKey{}).(string)
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
		x.next = (x.next + 1) % keptExplanations
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

// explain answers GET /v1/requests/{id}/explain: where the time of each of a request's answers went.
func (s *Server) explain(_ http.ResponseWriter, r *http.Request) (any, error) {
	id := r.PathValue("id")
	for _, prefix := range []string{"chatcmpl-", "cmpl-", "msg_", "resp_"} {
		if len(id) > len(prefix) && id[:len(prefix)] == prefix {
			id = id[len(prefix):]
			break
		}
	}
	all := s.explained.get(id)
	if len(all) == 0 {
		return nil, &apiError{Status: http.StatusNotFound, Kind: "invalid_request_error",
			Message: fmt.Sprintf("there is no finished request %s; give the X-Request-Id of an answer, or the answer's id, of the latest %d", id, keptExplanations)}
	}
	return map[string]any{"id": id, "answers": all}, nil
}
