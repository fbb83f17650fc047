package model

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/ridge-llm/ridge/quant"
)

// fields reads a configuration. Every call names the field in config.json and, without the architecture's prefix, in
// GGUF metadata; "" means that this world does not have it. What is read is also noted as GGUF metadata, so that a
// Hugging Face model can be written as GGUF. The first error sticks.
type fields struct {
	name     string // of the file, for errors
	arch     string // GGUF prefix
	hf       map[string]any
	gguf     map[string]any
	files    Tensors
	written  map[string]any
	read     map[string]bool // names of fields that were looked at, in the file's world; of RoPE's parameters likewise
	assumed  map[string]bool // names of fields that config.json does not have and whose default stands in hf
	experts  quant.Format    // that experts are published in; Invalid: as other weights
	err      error
	warnings []string
}

// hfFields reads config.json.
func hfFields(name string, config []byte, files Tensors) (*fields, error) {
	var c map[string]any
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, fmt.Errorf("model: %s is not JSON: %w", name, err)
	}
	if c == nil {
		return nil, fmt.Errorf("model: %s holds no JSON object", name)
	}
	return &fields{name: name, hf: c, files: files, written: map[string]any{}, read: map[string]bool{}, assumed: map[string]bool{}}, nil
}

// languagePart makes the text part of a multimodal model's configuration count as the whole, over the given defaults.
func (f *fields) languagePart(defaults map[string]any) {
	part := f.object("text_config")
	if part == nil {
		return
	}
	f.hf = maps.Clone(defaults)
	if f.hf == nil {
		f.hf = map[string]any{}
	}
	maps.Copy(f.hf, part)
	for name := range defaults {
		_, own := part[name]
		f.assumed[name] = !own
	}
}

func ggufFields(name, arch string, meta map[string]any, files Tensors) *fields {
	return &fields{name: name, arch: arch, gguf: meta, files: files, written: map[string]any{}, read: map[string]bool{}}
}

func (f *fields) fail(format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf("model: %s: %s", f.name, fmt.Sprintf(format, args...))
	}
}

// isHF reports whether the configuration is Hugging Face's.
func (f *fields) isHF() bool { return f.hf != nil }

// raw is the field's value, nil when absent or null, and its name in this world.
func (f *fields) raw(hf, gguf string) (any, string) {
	if f.isHF() {
		if hf == "" {
			return nil, ""
		}
		return f.value(hf), hf
	}
	if gguf == "" {
		return nil, ""
	}
	return f.meta(gguf), f.arch + "." + gguf
}

// value is a field of config.json, nil when absent, which counts as read.
func (f *fields) value(hf string) any {
	f.read[hf] = true
	return f.hf[hf]
}

// meta is a key of GGUF metadata without the architecture's prefix, nil when absent, which counts as read.
func (f *fields) meta(gguf string) any {
	name := f.arch + "." + gguf
	f.read[name] = true
	return f.gguf[name]
}

// note keeps a value for writing GGUF; a key that begins with / does not get the architecture's prefix.
func (f *fields) note(gguf string, v any) {
	if gguf != "" {
		f.written[gguf] = v
	}
}

// number is a value of any numeric type that a file has, as float64.
func number(v any) (float64, bool) {
	switch n := v.(type) {
	case float64:
		return n, true
	case float32:
		return float64(n), true
	case uint8:
		return float64(n), true
	case int8:
		return float64(n), true
	case uint16:
		return float64(n), true
	case int16:
		return float64(n), true
	case uint32:
		return float64(n), true
	case int32:
		return float64(n), true
	case uint64:
		return float64(n), true
	case int64:
		return float64(n), true
	}
	return 0, false
}

// size reads a whole number ≥ 0 that must be there.
func (f *fields) size(hf, gguf string) int {
	v, name := f.raw(hf, gguf)
	if v == nil {
		f.fail("field %s is missing", name)
		return 0
	}
	return f.sizeOr(hf, gguf, 0)
}

// sizeOr reads a whole number ≥ 0 or takes the default. Arrays, which GGUF has for sizes that vary by layer, are
// taken when all layers agree; 0 stands for a layer that has no such thing.
func (f *fields) sizeOr(hf, gguf string, otherwise int) int {
	v, name := f.raw(hf, gguf)
	n := otherwise
	if v != nil {
		if list, ok := v.([]int32); ok && len(list) > 0 {
			most := slices.Max(list)
			for _, x := range list {
				if x != most && x != 0 {
					f.fail("field %s varies by layer, which is not supported", name)
				}
			}
			v = most
		}
		x, ok := number(v)
		if !ok || x != math.Trunc(x) || x < 0 || x > math.MaxInt32 {
			f.fail("field %s is %v and a whole number is wanted", name, v)
			return otherwise
		}
		n = int(x)
	}
	f.note(gguf, uint32(n))
	return n
}

// maxNumber is more than any setting of a model, frequencies included. None is negative.
const maxNumber = 1e12

// float reads a number that must be there.
func (f *fields) float(hf, gguf string) float64 {
	if v, name := f.raw(hf, gguf); v == nil {
		f.fail("field %s is missing", name)
	}
	return f.floatOr(hf, gguf, 0)
}

// floatOr reads a number or takes the default.
func (f *fields) floatOr(hf, gguf string, otherwise float64) float64 {
	v, name := f.raw(hf, gguf)
	x := otherwise
	if v != nil {
		n, ok := number(v)
		if !ok || !(n >= 0 && n <= maxNumber) {
			f.fail("field %s is %v and a number of 0 to %g is wanted", name, v, maxNumber)
			return otherwise
		}
		x = n
	}
	f.note(gguf, float32(x))
	return x
}

// flag reads true or false; GGUF files say such things by their tensors, see has.
func (f *fields) flag(hf string, otherwise bool) bool {
	v := f.value(hf)
	if v == nil {
		return otherwise
	}
	b, ok := v.(bool)
	if !ok {
		f.fail("field %s is %v and true or false is wanted", hf, v)
	}
	return b
}

// flagOr reads true or false that GGUF has a key for as well.
func (f *fields) flagOr(hf, gguf string, otherwise bool) bool {
	v, name := f.raw(hf, gguf)
	b := otherwise
	if v != nil {
		var ok bool
		if b, ok = v.(bool); !ok {
			f.fail("field %s is %v and true or false is wanted", name, v)
		}
	}
	f.note(gguf, b)
	return b
}

// has reports whether a GGUF file has a tensor; a Hugging Face configuration answers by a field instead.
func (f *fields) has(tensor string) bool {
	if f.files == nil {
		return false
	}
	_, ok := f.files.Tensor(tensor)
	return ok
}

// word reads a word of config.json, "" when absent.
func (f *fields) word(hf string) string {
	v := f.value(hf)
	if v == nil {
		return ""
	}
	s, ok := v.(string)
	if !ok {
		f.fail("field %s is %v and a word is wanted", hf, v)
	}
	return s
}

// strings reads a list of words of config.json.
func (f *fields) strings(hf string) []string {
	v := f.value(hf)
	if v == nil {
		return nil
	}
	list, ok := v.([]any)
	out := make([]string, len(list))
	for i := range list {
		word, isWord := list[i].(string)
		out[i], ok = word, ok && isWord
	}
	if !ok {
		f.fail("field %s is %.100v and a list of words is wanted", hf, v)
	}
	return out
}

// part is an object in an object of config.json; nil when absent.
func (f *fields) part(of map[string]any, name string) map[string]any {
	o, ok := of[name].(map[string]any)
	if of[name] != nil && !ok {
		f.fail("field %s is %v and an object is wanted", name, of[name])
	}
	return o
}

// object is a part of config.json as fields of its own; nil when absent.
func (f *fields) object(hf string) map[string]any {
	v := f.value(hf)
	if v == nil {
		return nil
	}
	o, ok := v.(map[string]any)
	if !ok {
		f.fail("field %s is %v and an object is wanted", hf, v)
	}
	return o
}
