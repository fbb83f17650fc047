package convert

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/tokenizer"
)

// addText adds what the text side needs: the tokenizer, the chat template and the settings for sampling that
// the model's authors recommend. A model without a tokenizer becomes a file without one, with a note.
func addText(meta map[string]any, b *modeldir.Dir) (notes []string, err error) {
	t, err := b.Tokenizer()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		meta["tokenizer.ggml.model"] = "none"
		return []string{fmt.Sprintf("%s has no tokenizer.json, so the file has no tokenizer: it computes with token ids only", b.Source.Path)}, nil
	case err != nil:
		return nil, err
	}
	words, err := t.GGUF(b.Model.Config.Vocab)
	if err != nil {
		return nil, fmt.Errorf("convert: %s: %w", b.Source.Path, err)
	}
	for key, v := range words {
		meta[key] = v
	}
	if err := addTemplates(meta, b, t); err != nil {
		return nil, err
	}
	return addSampling(meta, b, t)
}

// addTemplates adds the chat templates.
func addTemplates(meta map[string]any, b *modeldir.Dir, t *tokenizer.Tokenizer) error {
	s, err := b.TemplateSources(t)
	if s.Default != "" {
		meta[modeldir.TemplateKey] = s.Default
	}
	if s.ToolUse != "" {
		meta[modeldir.ToolTemplateKey] = s.ToolUse
	}
	return err
}

// addSampling adds what generation_config.json says: how to sample, and the tokens that end an answer where t does not
// know them by their names.
func addSampling(meta map[string]any, b *modeldir.Dir, t *tokenizer.Tokenizer) (notes []string, err error) {
	g, err := b.Generation()
	if err != nil {
		return nil, err
	}
	for key, v := range map[string]*float64{
		modeldir.TemperatureKey: g.Temperature, modeldir.TopPKey: g.TopP, modeldir.MinPKey: g.MinP, modeldir.RepetitionPenaltyKey: g.RepetitionPenalty,
	} {
		if v != nil {
			meta[key] = float32(*v)
		}
	}
	if g.TopK != nil {
		meta[modeldir.TopKKey] = int32(*g.TopK)
	}
	if g.Greedy {
		meta[modeldir.TemperatureKey] = float32(0)
	}
	places := []string{"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}
	for _, id := range g.Ends {
		switch {
		case slices.Contains(t.Ends(), id):
		case len(places) > 0:
			meta[places[0]], places = uint32(id), places[1:]
		default:
			notes = append(notes, fmt.Sprintf("token %d ends an answer, which the file has no place to say", id))
		}
	}
	return notes, nil
}
