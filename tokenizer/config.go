package tokenizer

import (
	"encoding/json"
	"fmt"
)

// configFile is what matters of a tokenizer_config.json.
type configFile struct {
	BOS     *tokenName `json:"bos_token"`
	EOS     *tokenName `json:"eos_token"`
	AddBOS  *bool      `json:"add_bos_token"`
	AddEOS  *bool      `json:"add_eos_token"`
	CleanUp bool       `json:"clean_up_tokenization_spaces"`
}

// tokenName is a token, written as a string or as an object with its content.
type tokenName string

func (n *tokenName) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err == nil {
		*n = tokenName(s)
		return nil
	}
	var o struct{ Content string }
	err := json.Unmarshal(b, &o)
	*n = tokenName(o.Content)
	return err
}

// configure applies a tokenizer_config.json. Without one, BOS is what the template puts first, if it puts one token there
// and not one behind the text (as BERT's [CLS] … [SEP] does).
func (t *Tokenizer) configure(config []byte) error {
	if config == nil {
		if p := t.post.prefix(); len(p) == 1 && len(t.post.suffix()) == 0 {
			t.bos = p[0]
		}
		t.findEnds()
		return nil
	}
	var c configFile
	if err := json.Unmarshal(config, &c); err != nil {
		return fmt.Errorf("tokenizer: tokenizer_config.json: %w", err)
	}
	t.bos, t.eos, t.cleanUp = t.named(c.BOS), t.named(c.EOS), c.CleanUp
	t.addAround(c)
	t.findEnds()
	return nil
}

func (t *Tokenizer) named(n *tokenName) int32 {
	if n == nil {
		return -1
	}
	return t.idNamed(string(*n))
}

// idNamed is the id of the added token, or else of the token of the vocabulary, that the files spell so; -1: there is none.
func (t *Tokenizer) idNamed(name string) int32 {
	if name == "" {
		return -1
	}
	if id, ok := t.added.ids[name]; ok {
		return id
	}
	return t.vocab.id(name)
}

// addAround makes the template agree with add_bos_token and add_eos_token where the config gives them, as `transformers`
// does: it rebuilds the template around one text from the two.
func (t *Tokenizer) addAround(c configFile) {
	if len(t.post) == 0 {
		t.post = template{nil}
	}
	if id := t.bos; c.AddBOS != nil && id >= 0 {
		has := len(t.post[0]) > 0 && t.post[0][0] == id
		switch {
		case *c.AddBOS && !has:
			t.post = append(template{{id}}, t.post...)
		case !*c.AddBOS && has && len(t.post[0]) == 1:
			t.post = t.post[1:]
		}
	}
	if id := t.eos; c.AddEOS != nil && id >= 0 {
		last := len(t.post) - 1
		has := last >= 0 && len(t.post[last]) > 0 && t.post[last][len(t.post[last])-1] == id
		switch {
		case *c.AddEOS && !has:
			t.post = append(t.post, []int32{id})
		case !*c.AddEOS && has && len(t.post[last]) == 1:
			t.post = t.post[:last]
		}
	}
}
