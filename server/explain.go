package server

import (
	"fmt"
	"net/http"

	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/serving"
)

// explain answers GET /v1/requests/{id}/explain: where the time of each of a request's answers went.
func (s *Server) explain(_ http.ResponseWriter, r *http.Request) (any, error) {
	id := r.PathValue("id")
	for _, prefix := range []string{"chatcmpl-", "cmpl-", "msg_", "resp_"} {
		if len(id) > len(prefix) && id[:len(prefix)] == prefix {
			id = id[len(prefix):]
			break
		}
	}
	all := s.Service.Explanations(r.Context(), id)
	for i := 0; len(all) == 0 && i < len(s.stages); i++ {
		all = s.stages[i].service.Explanations(r.Context(), id)
	}
	if len(all) == 0 {
		return nil, &api.Error{Status: http.StatusNotFound, Kind: "invalid_request_error",
			Message: fmt.Sprintf("there is no finished request %s; give the X-Request-Id of an answer, or the answer's id, of the latest %d", id, serving.KeptExplanations)}
	}
	return map[string]any{"id": id, "answers": all}, nil
}
