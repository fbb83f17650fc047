package tokenizer

import (
	"fmt"
	"math"
)

// The metadata keys of a GGUF file that describe its tokenizer. Source: docs/gguf.md of github.com/ggml-org/ggml, and
// the constants of gguf-py.
const (
	keyModel        = "tokenizer.ggml.model"
	keyPre          = "tokenizer.ggml.pre"
	keyTokens       = "tokenizer.ggml.tokens"
	keyScores       = "tokenizer.ggml.scores"
	keyTypes        = "tokenizer.ggml.token_type"
	keyMerges       = "tokenizer.ggml.merges"
	keyBOS          = "tokenizer.ggml.bos_token_id"
	keyEOS          = "tokenizer.ggml.eos_token_id"
	keyEOT          = "tokenizer.ggml.eot_token_id"
	keyEOM          = "tokenizer.ggml.eom_token_id"
	keyUnk          = "tokenizer.ggml.unknown_token_id"
	keySep          = "tokenizer.ggml.seperator_token_id" // sic
	keyAddBOS       = "tokenizer.ggml.add_bos_token"
	keyAddEOS       = "tokenizer.ggml.add_eos_token"
	keyAddSpace     = "tokenizer.ggml.add_space_prefix"
	keyMergeSpaces  = "tokenizer.ggml.remove_extra_whitespaces"
	keyCharsmap     = "tokenizer.ggml.precompiled_charsmap"
	keyLowercase    = "tokenizer.ggml.normalizer.lowercase"
	keyStripAccents = "tokenizer.ggml.normalizer.strip_accents"
	keyName         = "general.name"
	// keySpaceFirst is Ridge's own: only the start of a text gets the space of add_space_prefix, not every stretch between
	// special tokens. Other programs do not know it and add the space everywhere.
	keySpaceFirst = "tokenizer.ridge.add_space_prefix_first_only"
	// Ridge's own too: ids of added tokens that take white space with them, or match whole words only.
	keyLStrip     = "tokenizer.ridge.lstrip_token_ids"
	keyRStrip     = "tokenizer.ridge.rstrip_token_ids"
	keySingleWord = "tokenizer.ridge.single_word_token_ids"
)

// Token types of tokenizer.ggml.token_type.
const (
	typeNormal      = 1
	typeUnknown     = 2
	typeControl     = 3
	typeUserDefined = 4
	typeUnused      = 5
	typeByte        = 6
)

// ggufMeta reads metadata values, which have whatever number types the file has.
type ggufMeta map[string]any

func (m ggufMeta) str(key string) string {
	s, _ := m[key].(string)
	return s
}

func (m ggufMeta) boolean(key string, otherwise bool) bool {
	if b, ok := m[key].(bool); ok {
		return b
	}
	return otherwise
}

// id reads a token id below n, or -1 when the key is missing or names no token.
func (m ggufMeta) id(key string, n int) int32 {
	if id, ok := integer(m[key]); ok && id >= 0 && id < int64(n) {
		return int32(id)
	}
	return -1
}

func integer(v any) (int64, bool) {
	switch v := v.(type) {
	case int8:
		return int64(v), true
	case uint8:
		return int64(v), true
	case int16:
		return int64(v), true
	case uint16:
		return int64(v), true
	case int32:
		return int64(v), true
	case uint32:
		return int64(v), true
	case int64:
		return v, true
	case uint64:
		return int64(v), v <= math.MaxInt64
	case int:
		return int64(v), true
	}
	return 0, false
}

// integers reads an array of whole numbers of any type; nil when the key is missing.
func (m ggufMeta) integers(key string) ([]int32, error) {
	switch v := m[key].(type) {
	case nil:
		return nil, nil
	case []int32:
		return v, nil
	case []uint32:
		return narrow(key, v)
	case []int64:
		return narrow(key, v)
	case []uint64:
		return narrow(key, v)
	case []int16:
		return narrow(key, v)
	case []uint16:
		return narrow(key, v)
	case []int8:
		return narrow(key, v)
	case []uint8:
		return narrow(key, v)
	}
	return nil, fmt.Errorf("tokenizer: %s is a %T; it must be an array of integers", key, m[key])
}

func narrow[T int8 | uint8 | int16 | uint16 | uint32 | int64 | uint64](key string, list []T) ([]int32, error) {
	out := make([]int32, len(list))
	for i, v := range list {
		if out[i] = int32(v); T(out[i]) != v {
			return nil, fmt.Errorf("tokenizer: %s[%d] is %d, too large for a token's type", key, i, v)
		}
	}
	return out, nil
}

// floats reads an array of scores; nil when the key is missing.
func (m ggufMeta) floats(key string) ([]float64, error) {
	var out []float64
	switch v := m[key].(type) {
	case nil:
	case []float32:
		out = make([]float64, len(v))
		for i, x := range v {
			out[i] = float64(x)
		}
	case []float64:
		out = v
	case []int32:
		out = make([]float64, len(v))
		for i, x := range v {
			out[i] = float64(x)
		}
	default:
		return nil, fmt.Errorf("tokenizer: %s is a %T; it must be an array of float32", key, v)
	}
	for i, x := range out {
		if math.IsNaN(x) {
			return nil, fmt.Errorf("tokenizer: %s[%d] is not a number", key, i)
		}
	}
	return out, nil
}

// blob reads an array of bytes, signed or not; nil when the key is missing.
func (m ggufMeta) blob(key string) ([]byte, error) {
	switch v := m[key].(type) {
	case nil:
		return nil, nil
	case []uint8:
		return v, nil
	case []int8:
		out := make([]byte, len(v))
		for i, x := range v {
			out[i] = byte(x)
		}
		return out, nil
	}
	return nil, fmt.Errorf("tokenizer: %s is a %T; it must be an array of bytes", key, m[key])
}
