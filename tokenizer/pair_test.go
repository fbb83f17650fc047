package tokenizer

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

// TestPairs: two texts are put together as the post-processor says, and its kinds differ.
func TestPairs(t *testing.T) {
	const file = `{"added_tokens": [{"id": 0, "content": "<s>", "special": true}, {"id": 1, "content": "</s>", "special": true}],
		"pre_tokenizer": {"type": "BertPreTokenizer"}, "model": {"type": "WordPiece", "unk_token": "?", "vocab": {"<s>": 0, "</s>": 1, "?": 2, "fox": 3, "hen": 4}}, "post_processor": %s}`
	special := `"special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}, "</s>": {"id": "</s>", "ids": [1], "tokens": ["</s>"]}}`
	for post, want := range map[string][]int32{
		`{"type": "BertProcessing", "sep": ["</s>", 1], "cls": ["<s>", 0]}`:    {0, 3, 1, 4, 3, 1},
		`{"type": "RobertaProcessing", "sep": ["</s>", 1], "cls": ["<s>", 0]}`: {0, 3, 1, 1, 4, 3, 1},
		`{"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A"}}], "pair": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "</s>"}}, {"SpecialToken": {"id": "</s>"}},
			{"Sequence": {"id": "B"}}], ` + special + `}`: {0, 3, 1, 1, 4, 3},
		`{"type": "ByteLevel"}`: nil,
		`{"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A"}}], "pair": [{"Sequence": {"id": "B"}}, {"Sequence": {"id": "A"}}], ` + special + `}`: nil,
	} {
		tok, err := FromJSON([]byte(fmt.Sprintf(file, post)), nil)
		if err != nil {
			t.Fatal(err)
		}
		p, err := tok.EncodePair("fox", "hen fox", 0)
		if want == nil {
			if !errors.Is(err, ErrNoPairs) {
				t.Errorf("%.60s: %v", post, err)
			}
			continue
		}
		if err != nil || !slices.Equal(p.IDs, want) || !slices.Equal(p.IDs[p.Begin:p.End], []int32{4, 3}) {
			t.Errorf("%.60s: %+v %v, not %v", post, p, err, want)
		}
	}
}
