package server

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// refusal is a field that OpenAI's or vLLM's API knows and Ridge does not do. Left unsaid it would be ignored, and the
// answer would not be what was asked for. Fields that no API knows are ignored, as servers commonly do.
type refusal struct {
	harmless string // JSON values that ask for nothing, space between; null always does
	why      string
}

// selective is a request's body that names the fields it refuses.
type selective interface{ refuses() map[string]refusal }

// refuseFields refuses a body with a field that v does not do.
func refuseFields(body []byte, v any) error {
	s, ok := v.(selective)
	if !ok {
		return nil
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil {
		return nil // not an object; that has been told
	}
	table := s.refuses()
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		r, known := table[name]
		if !known {
			continue
		}
		var value bytes.Buffer
		if json.Compact(&value, fields[name]) != nil || value.String() == "null" || slices.Contains(strings.Fields(r.harmless), value.String()) {
			continue
		}
		return bad(name, "%s is not supported: %s", name, r.why)
	}
	return nil
}

// commonRefusals are those of chat answers and completions.
var commonRefusals = map[string]refusal{
	"prompt_logprobs":               {"false", "log-probabilities are kept of the answer only"},
	"service_tier":                  {`"auto" "default"`, "there is one tier; priority orders requests under --policy priority"},
	"use_beam_search":               {"false", "answers are sampled; best_of on /v1/completions chooses among several"},
	"length_penalty":                {"1 1.0", "it is for beam search"},
	"early_stopping":                {"false", "it is for beam search"},
	"truncate_prompt_tokens":        {"", "prompts are never cut; shorten yours"},
	"bad_words":                     {"[]", "forbid tokens with logit_bias -100"},
	"logits_processors":             {"[]", "no code is run for a request; logit_bias and guided_* steer answers"},
	"spaces_between_special_tokens": {"true", "text is decoded as the tokenizer does it"},
	"return_token_ids":              {"false", "logprobs name the tokens"},
	"return_tokens_as_token_ids":    {"false", "logprobs name the tokens"},
	"kv_transfer_params":            {"", "one process does all the work"},
	"prompt_embeds":                 {"", "prompts are text or token ids"},
}

// chatRefusals are those of chat answers alone.
var chatRefusals = merged(commonRefusals, map[string]refusal{
	"audio":               {"", "only text is made"},
	"modalities":          {`["text"]`, "only text is made"},
	"prediction":          {"", "no predicted output is used"},
	"functions":           {"[]", "use tools"},
	"function_call":       {`"auto" "none"`, "use tool_choice"},
	"web_search_options":  {"", "there is no web search here"},
	"verbosity":           {`"medium"`, "say in the conversation how long answers should be"},
	"store":               {"false", "answers are not kept"},
	"echo":                {"false", "the conversation is not repeated in the answer"},
	"chat_template":       {"", "the template is chosen when the server starts (--chat-template)"},
	"mm_processor_kwargs": {"", "only text is read"},
	"add_special_tokens":  {"false", "the chat template writes the special tokens"},
	"skip_special_tokens": {"true", "special tokens are what tool calls and reasoning are told from; /v1/completions can show them"},
})

// completionRefusals are those of completions alone.
var completionRefusals = merged(commonRefusals, map[string]refusal{
	"suffix":             {`""`, "text is continued, not filled in; models for that have tokens of their own to write into the prompt"},
	"add_special_tokens": {"true", "give the prompt as token ids to choose yourself"},
})

func merged(a, b map[string]refusal) map[string]refusal {
	m := maps.Clone(a)
	maps.Copy(m, b)
	return m
}

func (q *chatRequest) refuses() map[string]refusal       { return chatRefusals }
func (q *completionRequest) refuses() map[string]refusal { return completionRefusals }
