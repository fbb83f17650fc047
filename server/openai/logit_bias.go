package openai

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/ridge-llm/ridge/server/api"
)

// biases is logit_bias: what is added to the logits of tokens. A token that has two keys ("5" and "05", or the same twice) is refused:
// which of them would count is nothing that JSON says.
type biases map[int32]float64

// UnmarshalJSON implements json.Unmarshaler.
func (b *biases) UnmarshalJSON(text []byte) error {
	var keyed map[string]float64 // for its errors
	if err := json.Unmarshal(text, &keyed); err != nil || keyed == nil {
		return err
	}
	*b = make(biases, len(keyed))
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if _, err := d.Token(); err != nil { // the brace
		return err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := key.(string)
		id, err := strconv.ParseInt(name, 10, 32)
		if err != nil {
			return api.Invalid("logit_bias", "logit_bias has the key %q; keys are token ids", name)
		}
		var bias float64
		if err := d.Decode(&bias); err != nil {
			return err
		}
		if _, twice := (*b)[int32(id)]; twice {
			return api.Invalid("logit_bias", "logit_bias has token %d twice, the second time as %q; each token may have one bias", id, name)
		}
		(*b)[int32(id)] = bias
	}
	return nil
}
