package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// FromJSON reads a Hugging Face tokenizer.json. config is the tokenizer_config.json beside it, or nil; it names the
// beginning and end tokens, and says whether BOS and EOS are added and spaces cleaned up.
func FromJSON(file, config []byte) (*Tokenizer, error) {
	if !utf8.Valid(file) {
		return nil, errors.New("tokenizer: tokenizer.json is not valid UTF-8")
	}
	f, err := readFile(string(file))
	if err != nil {
		return nil, err
	}
	t := &Tokenizer{bos: -1, eos: -1, spec: f.spec}
	if t.norm, err = f.spec.Normalizer.normalizer(); err != nil {
		return nil, err
	}
	if t.pre, err = f.spec.PreTokenizer.preTokenizers(); err != nil {
		return nil, err
	}
	if t.post, err = f.spec.PostProcessor.template(); err != nil {
		return nil, err
	}
	t.joint = f.spec.PostProcessor.joint()
	if t.dec, err = f.spec.Decoder.decoder(); err != nil {
		return nil, err
	}
	if err := f.model.build(t, f.spec.PreTokenizer.endsInByteLevel()); err != nil {
		return nil, err
	}
	t.added = newAddedVocab(f.added, t.vocab, t.norm)
	if err := t.configure(config); err != nil {
		return nil, err
	}
	t.findFIM(FIM{Prefix: -1, Suffix: -1, Middle: -1, Repo: -1, File: -1})
	return t.finish(), nil
}

// spec is the small parts of a tokenizer.json as they are written.
type spec struct {
	Normalizer, PreTokenizer, PostProcessor, Decoder *component
}

// jsonFile is a tokenizer.json taken apart: the small parts read, the vocabulary still text.
type jsonFile struct {
	spec  spec
	added []AddedToken
	model *modelFields
}

func readFile(s string) (*jsonFile, error) {
	f := &jsonFile{}
	j := &jsonScan{s: s}
	read := func(key string, into any) {
		if text := j.raw(); j.err == nil {
			if err := json.Unmarshal([]byte(text), into); err != nil {
				j.err = fmt.Errorf("tokenizer: %q of tokenizer.json: %w", key, err)
			}
		}
	}
	j.object(func(key string) {
		switch key {
		case "version":
			var v string
			if read(key, &v); j.err == nil && v != "1.0" {
				j.err = fmt.Errorf("tokenizer: tokenizer.json has version %q; this program reads 1.0", v)
			}
		case "added_tokens":
			read(key, &f.added)
		case "normalizer":
			read(key, &f.spec.Normalizer)
		case "pre_tokenizer":
			read(key, &f.spec.PreTokenizer)
		case "post_processor":
			read(key, &f.spec.PostProcessor)
		case "decoder":
			read(key, &f.spec.Decoder)
		case "model":
			f.model = j.model()
		default: // truncation and padding among them: they are the engine's business
			j.raw()
		}
	})
	if j.err == nil && j.peek() != 0 {
		j.fail("text after the end")
	}
	if j.err == nil && f.model == nil {
		j.err = errors.New("tokenizer: tokenizer.json has no \"model\"")
	}
	return f, j.err
}
