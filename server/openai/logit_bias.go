package openai

import (
	"encoding/json"
	"strconv"

	"github.com/ridge-llm/ridge/server/api"
)

// biases is logit_bias: what is added to the logits of tokens. A token that has two keys ("5" and "05", or the same twice) is refused:
// which of them would count is nothing that JSON says.
type biases map[int32]float64

// UnmarshalJSON implements json.Unmarshaler.
func (b *biases) UnmarshalJSON(text []byte) error {
	if text[0] != '{' {
		var none map[string]float64 // null, or an error that names the field
		return json.Unmarshal(text, &none)
	}
	*b = biases{}
	for name, value := range api.Members(text) {
		id, err := strconv.ParseInt(name, 10, 32)
		if err != nil {
			return api.Invalid("logit_bias", "logit_bias has the key %q; keys are token ids", name)
		}
		bias, err := strconv.ParseFloat(string(value), 64)
		if string(value) == "null" {
			bias = 0
		} else if err != nil || value[0] > '9' { // Inf is no number in JSON
			var keyed map[string]float64
			return json.Unmarshal(text, &keyed) // its error, which names the field
		}
		if _, twice := (*b)[int32(id)]; twice {
			return api.Invalid("logit_bias", "logit_bias has token %d twice, the second time as %q; each token may have one bias", id, name)
		}
		(*b)[int32(id)] = bias
	}
	return nil
}
