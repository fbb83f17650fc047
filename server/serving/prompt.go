package serving

import (
	"context"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/chat"
)

// What follows is the model's, in the service's lane where there is much of it.

// Encode turns texts into token ids, all of them however many they are.
func (s *Service) Encode(ctx context.Context, texts []string, special bool) ([][]int32, error) {
	return s.encode(ctx, texts, func(text string) ([]int32, error) { return s.Model.Encode(text, special) })
}

// EncodeInputs turns texts to be computed into token ids; see ridge.Model.EncodeInput.
func (s *Service) EncodeInputs(ctx context.Context, texts []string) ([][]int32, error) {
	return s.encode(ctx, texts, func(text string) ([]int32, error) { return s.EncodeInput(text, true) })
}

// EncodeStarts turns texts into token ids, of which each has as many as the context at most.
func (s *Service) EncodeStarts(ctx context.Context, texts []string) ([][]int32, error) {
	return s.encode(ctx, texts, func(text string) ([]int32, error) { return s.EncodeStart(text, true, s.Context()) })
}

// EncodeInfills turns texts with gaps into prompts, and says which tokens end what fills them; see ridge.Model.EncodeInfill.
func (s *Service) EncodeInfills(ctx context.Context, gaps []ridge.Infill) (prompts [][]int32, ends []int32, err error) {
	bytes := 0
	for _, g := range gaps {
		bytes += len(g.Prefix) + len(g.Suffix)
		for _, f := range g.Files {
			bytes += len(f.Name) + len(f.Text)
		}
	}
	prompts, err = InLane(ctx, s, bytes, func() (all [][]int32, err error) {
		for _, g := range gaps {
			var ids []int32
			if ids, ends, err = s.EncodeInfill(g); err != nil {
				return nil, err
			}
			all = append(all, ids)
		}
		return all, nil
	})
	return prompts, ends, err
}

func (s *Service) encode(ctx context.Context, texts []string, f func(string) ([]int32, error)) ([][]int32, error) {
	bytes := 0
	for _, text := range texts {
		bytes += len(text)
	}
	return InLane(ctx, s, bytes, func() (all [][]int32, err error) {
		for _, text := range texts {
			ids, err := f(text)
			if err != nil {
				return nil, err
			}
			all = append(all, ids)
		}
		return all, nil
	})
}

// EncodePairs turns pairs of texts into token ids, of which each has so many at most; see ridge.Model.EncodePair.
func (s *Service) EncodePairs(ctx context.Context, texts [][2]string, limit int) ([]ridge.Pair, error) {
	bytes := 0
	for _, two := range texts {
		bytes += len(two[0]) + len(two[1])
	}
	return InLane(ctx, s, bytes, func() (all []ridge.Pair, err error) {
		for _, two := range texts {
			pair, err := s.Model.EncodePair(two[0], two[1], limit)
			if err != nil {
				return nil, err
			}
			all = append(all, pair)
		}
		return all, nil
	})
}

// Breakers are texts that end repetitions; see ridge.Model.Breakers. The vocabulary is searched for each, as long as a text of many kilobytes takes.
func (s *Service) Breakers(ctx context.Context, texts []string) (*ridge.Breakers, error) {
	const search = 1 << 18 // bytes of a text that takes as long to encode
	return InLane(ctx, s, search*len(texts), func() (*ridge.Breakers, error) { return s.Model.Breakers(texts) })
}

// Prompt renders a conversation.
func (s *Service) Prompt(ctx context.Context, r chat.Request) (chat.Prompt, error) {
	return InLane(ctx, s, r.Bytes(), func() (chat.Prompt, error) { return s.Model.Prompt(ctx, r) })
}

// EncodePrompt turns a rendered conversation into token ids, all of them however many they are.
func (s *Service) EncodePrompt(ctx context.Context, p chat.Prompt) ([]int32, error) {
	text, _ := p.Marked()
	return InLane(ctx, s, len(text), func() ([]int32, error) { return s.Model.EncodePrompt(p) })
}

// EncodePromptInput turns a rendered conversation that is to be answered into token ids; see ridge.Model.EncodeInput.
func (s *Service) EncodePromptInput(ctx context.Context, p chat.Prompt) ([]int32, error) {
	text, _ := p.Marked()
	return InLane(ctx, s, len(text), func() ([]int32, error) { return s.Model.EncodePromptInput(p) })
}

// InLane makes something of so many bytes, in the lane of texts that are not small.
func InLane[T any](ctx context.Context, s *Service, bytes int, f func() (T, error)) (x T, err error) {
	if left := s.lane.Do(ctx, bytes, func() { x, err = f() }); left != nil {
		return x, left
	}
	return x, err
}
