package main

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/ridge-llm/ridge"
)

// addSpeculation adds vLLM's flag for speculative decoding and llama.cpp's.
func addSpeculation(fl *pflag.FlagSet, s *ridge.Speculation) {
	fl.Var((*speculationFlag)(s), "speculative-config", `speculative decoding, as JSON: {"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_max": 5, "prompt_lookup_min": 2}; methods: ngram, suffix, lookahead, layerskip, draft_model, medusa, mtp, eagle, eagle3 (docs/speculation.md); with "beside": ["suffix", {"model": "small.gguf"}] several are asked; steps verify as many drafted tokens as are worth it, and answers are as without`)
	fl.Var((*modelDraftFlag)(s), "model-draft", "draft model of the same vocabulary: GGUF file or Hugging Face directory, or that of an EAGLE layer; the same as its path as model in --speculative-config")
	fl.Var((*draftFlag)(s), "draft-max", "most tokens to draft; without --speculative-config, by n-grams of the request itself; --draft is the same")
	alias(fl, "draft", "draft-max")
}

// speculationFlag reads vLLM's JSON.
type speculationFlag ridge.Speculation

// Type implements pflag.Value.
func (*speculationFlag) Type() string { return "JSON" }

// String implements pflag.Value.
func (s *speculationFlag) String() string { return s.Method }

// Set implements pflag.Value.
func (s *speculationFlag) Set(text string) error {
	tokens := s.Tokens // of --draft-max, given before
	if err := json.Unmarshal([]byte(text), (*ridge.Speculation)(s)); err != nil {
		return err
	}
	s.Tokens = cmp.Or(s.Tokens, tokens)
	return nil
}

// modelDraftFlag reads the path of a draft model.
type modelDraftFlag ridge.Speculation

// Type implements pflag.Value.
func (*modelDraftFlag) Type() string { return "string" }

// String implements pflag.Value.
func (s *modelDraftFlag) String() string { return s.Model }

// Set implements pflag.Value.
func (s *modelDraftFlag) Set(path string) error {
	s.Model, s.Method = path, "draft_model"
	return nil
}

// draftFlag reads the most tokens of a draft.
type draftFlag ridge.Speculation

// Type implements pflag.Value.
func (*draftFlag) Type() string { return "tokens" }

// String implements pflag.Value.
func (s *draftFlag) String() string { return fmt.Sprint(s.Tokens) }

// Set implements pflag.Value.
func (s *draftFlag) Set(text string) error {
	var n int
	if _, err := fmt.Sscan(text, &n); err != nil || n < 1 {
		return fmt.Errorf("%q is not a number of tokens from 1 on", text)
	}
	if s.Tokens = n; s.Method == "" {
		s.Method = "ngram"
	}
	return nil
}
