package openai

import "github.com/ridge-llm/ridge"

// idFields is vLLM's field that asks for the ids of the prompt's tokens and of the answer's: a client that goes on from an answer in these ids, in place of its text, says
// it in the tokens that the cache has it in.
type idFields struct {
	ReturnIDs bool `json:"return_token_ids"`
}

// take are the ids of an answer with those that a piece adds, the token that ended it included, as vLLM has it; nil where they were not asked for.
func (q *idFields) take(ids []int32, p ridge.Piece) []int32 {
	if !q.ReturnIDs {
		return nil
	}
	if ids == nil {
		ids = []int32{} // an answer of none is a list, not null
	}
	if p.Token != nil {
		ids = append(ids, p.Token.Token)
	}
	if p.Finish != nil && p.Finish.End != nil {
		ids = append(ids, p.Finish.End.Token)
	}
	return ids
}

// put has an answer, or a choice of it, say ids under a name, where there are some to say.
func (q *idFields) put(body map[string]any, name string, ids []int32) {
	if q.ReturnIDs && ids != nil {
		body[name] = ids
	}
}
