package openai

import (
	"context"
	"errors"
	"slices"
	"sort"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/chat"
	"github.com/ridge-llm/ridge/server/serving"
)

// truncateAuto is the truncation that leaves out the oldest messages of a conversation that does not fit into the context.
const truncateAuto = "auto"

// fitting renders the conversation and turns it into token ids. With truncation auto, messages are left out where they do not fit:
// the oldest ones but for the system's, up to one of the user's, as few as leave room for an answer.
func (q *ChatRequest) fitting(ctx context.Context, s *serving.Service) (p chat.Prompt, ids []int32, err error) {
	p, ids, err = q.encoded(ctx, s)
	if q.Truncation != truncateAuto || !overflows(s, ids, err, 1) {
		return p, ids, err
	}
	all := q.Messages
	head := slices.IndexFunc(all, func(m ChatMessage) bool { return m.Role != "system" && m.Role != "developer" })
	var turns []int
	for i, m := range all {
		if m.Role == "user" && i > head {
			turns = append(turns, i)
		}
	}
	if head < 0 || len(turns) == 0 {
		return p, ids, err
	}
	attempt := func(turn int) bool {
		q.Messages = slices.Concat(all[:head], all[turns[turn]:])
		p, ids, err = q.encoded(ctx, s)
		return !overflows(s, ids, err, q.room(s))
	}
	first := sort.Search(len(turns)-1, attempt) // of the last turn, whatever it takes
	attempt(first)
	return p, ids, err
}

func (q *ChatRequest) encoded(ctx context.Context, s *serving.Service) (p chat.Prompt, ids []int32, err error) {
	if p, err = q.prompt(ctx, s); err != nil {
		return p, nil, err
	}
	ids, err = s.EncodePromptInput(ctx, p)
	return p, ids, err
}

// overflows reports whether a prompt leaves no room for so many tokens of an answer.
func overflows(s *serving.Service, ids []int32, err error, room int) bool {
	return errors.Is(err, ridge.ErrContextLength) || err == nil && len(ids)+room > s.Context()
}

// room is how many tokens a conversation that is cut leaves for its answer: as many as were asked for, or an eighth of the context,
// and a quarter at most.
func (q *ChatRequest) room(s *serving.Service) int {
	n := s.Context() / 8
	if q.MaxTokens != nil {
		n = *q.MaxTokens
	}
	return max(1, min(n, s.Context()/4))
}
