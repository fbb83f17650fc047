package ridge

import (
	"errors"
	"fmt"

	"github.com/ridge-llm/ridge/chat"
	"github.com/ridge-llm/ridge/tokenizer"
)

// countedContexts is how many times as long as the context a text may be and is still read to its end, so that the error says how long it is.
const countedContexts = 4

// Encode turns text into token ids, with the tokens around it that the model expects (such as BOS) if special is
// set. Special tokens written in the text are recognised.
func (m *Model) Encode(text string, special bool) ([]int32, error) {
	return m.tokenizer.Encode(text, tokenizer.Options{Special: special, ParseSpecial: true})
}

// EncodeInput is Encode for a text that the model is to compute: one that is many times as long as the context is refused with ErrContextLength, without
// being read to its end. What is a little too long is for the call that computes it to refuse.
func (m *Model) EncodeInput(text string, special bool) ([]int32, error) {
	return m.encodeInput(text, tokenizer.Options{Special: special, ParseSpecial: true})
}

// EncodeStart is the first tokens of Encode, so many at most, without reading what is behind them.
func (m *Model) EncodeStart(text string, special bool, most int) ([]int32, error) {
	ids, err := m.tokenizer.Encode(text, tokenizer.Options{Special: special, ParseSpecial: true, Most: most})
	if errors.Is(err, tokenizer.ErrMore) {
		err = nil
	}
	return ids, err
}

// EncodePrompt is a prompt as tokens. The template has written the tokens around the conversation; they are not added.
func (m *Model) EncodePrompt(p chat.Prompt) ([]int32, error) {
	text, o := marked(p)
	return m.tokenizer.Encode(text, o)
}

// EncodePromptInput is EncodePrompt for a prompt that the model is to answer, as EncodeInput is Encode.
func (m *Model) EncodePromptInput(p chat.Prompt) ([]int32, error) { return m.encodeInput(marked(p)) }

func marked(p chat.Prompt) (text string, o tokenizer.Options) {
	text, mark := p.Marked()
	return text, tokenizer.Options{ParseSpecial: true, Mark: mark}
}

// encodeInput reads a text up to the number of tokens that is worth counting.
func (m *Model) encodeInput(text string, o tokenizer.Options) ([]int32, error) {
	return m.encodeUpTo(text, o, m.tokenizer.Encode)
}

// encodeUpTo is encodeInput by a function of the tokenizer's.
func (m *Model) encodeUpTo(text string, o tokenizer.Options, encode func(string, tokenizer.Options) ([]int32, error)) (ids []int32, err error) {
	o.Most = countedContexts * m.context
	least := m.tokenizer.Least(text, o)
	if least <= o.Most {
		ids, err = encode(text, o)
		if !errors.Is(err, tokenizer.ErrMore) {
			return ids, err
		}
		least = o.Most + 1
	}
	return nil, &Error{Kind: ErrContextLength, Tokens: least, Limit: m.context, Reason: fmt.Sprintf("the prompt has %d tokens or more and the context is %d; shorten it or load the model with a larger context", least, m.context)}
}
