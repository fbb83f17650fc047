package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
)

const story = `"messages": [{"role": "user", "content": "Tell me a story about a fox named Pip"}], "temperature": 0`

// TestFieldsWork: fields change the answer as they say.
func TestFieldsWork(t *testing.T) {
	h, m := start(t, ridge.Options{}, server.Options{})
	text := func(path, fields string) string {
		t.Helper()
		status, body := post(t, h, path, "{"+fields+"}")
		if status != 200 {
			t.Fatalf("%s: %d %s", fields, status, body)
		}
		c := parse(t, body).Choices[0]
		return c.Text + c.Message.Content
	}
	const once = `"prompt": "Once upon a time", "temperature": 0, `
	whole := text("/v1/completions", once+`"max_tokens": 12`)
	dragon, err := m.Encode(" dragon", false)
	if err != nil {
		t.Fatal(err)
	}
	before, _, found := strings.Cut(whole, " dragon")
	if !found {
		t.Fatalf("the built-in model says %q", whole)
	}
	for fields, want := range map[string]string{
		`"max_tokens": 12, "echo": true`:                                                   "Once upon a time" + whole,
		`"max_tokens": 12, "stop": " dragon"`:                                              before,
		`"max_tokens": 12, "stop": " dragon", "include_stop_str_in_output": true`:          before + " dragon",
		fmt.Sprintf(`"max_tokens": 12, "stop_token_ids": [%d]`, dragon[0]):                 before,
		fmt.Sprintf(`"max_tokens": 3, "allowed_token_ids": [%d]`, dragon[0]):               " dragon dragon dragon",
		fmt.Sprintf(`"max_tokens": 1, "logit_bias": {"%d": 100}`, dragon[0]):               " dragon",
		`"max_tokens": 12, "service_tier": "flex", "suffix": "", "user": "u", "x": {}`:     whole,
		`"n_predict": 12, "repeat_penalty": 1.0, "typical_p": 1, "mirostat": 0`:            whole,
		`"max_tokens": 12, "temperature": 9, "top_n_sigma": 0.001`:                         whole,
		`"max_tokens": 12, "xtc_probability": 1, "xtc_threshold": 0.51`:                    whole,
		`"max_tokens": 12, "mirostat": 2, "mirostat_tau": 0.0, "temperature": 9`:           whole,
		`"max_tokens": 12, "samplers": ["top_k", "dry"], "top_k": 1, "temperature": 9`:     whole,
		`"max_tokens": 12, "samplers": "kt", "top_k": 1, "temperature": 9`:                 whole,
		`"max_tokens": 12, "dynatemp_range": 0.0, "dynatemp_exponent": 1.0`:                whole,
		`"n_predict": -1, "max_tokens": 12, "repeat_last_n": 0, "repeat_penalty": 1.9`:     whole,
		`"max_tokens": 12, "grammar": "root ::= \"ab\""`:                                   "ab",
		`"max_tokens": 12, "ebnf": "root ::= \"ab\""`:                                      "ab",
		`"max_tokens": 12, "regex": "a{3}"`:                                                "aaa",
		`"max_tokens": 12, "json_schema": {"const": 7}`:                                    "7",
		`"max_tokens": 12, "n": 1, "best_of": 3`:                                           whole,
		`"max_tokens": 12, "seed": 1, "top_k": 1, "min_p": 0.1, "repetition_penalty": 1.0`: whole,
	} {
		if got := text("/v1/completions", once+fields); got != want {
			t.Errorf("%s: %q, not %q", fields, got, want)
		}
	}
	if got := text("/v1/completions", once+`"max_tokens": 12, "xtc_probability": 1, "xtc_threshold": 0.001`); got == whole {
		t.Errorf("without the likeliest tokens the answer is still %q", got)
	}
	if got := text("/v1/completions", once+`"max_tokens": 12, "seed": 1, "dynatemp_range": 20`); got == whole {
		t.Errorf("at temperatures up to 20 the answer is still %q", got)
	}
	if got := text("/v1/completions", once+fmt.Sprintf(`"max_tokens": 12, "min_tokens": 12, "stop_token_ids": [%d]`, dragon[0])); strings.Contains(got, "dragon") || len(got) <= len(before) {
		t.Errorf("with min_tokens the answer is %q", got)
	}

	first := text("/v1/chat/completions", story+`, "max_completion_tokens": 30`)
	words := strings.SplitAfterN(first, " ", 4)
	begun := strings.TrimSuffix(words[0]+words[1]+words[2], " ")
	rest := text("/v1/chat/completions", strings.Replace(story, `}]`, `}, {"role": "assistant", "content": "`+begun+`"}]`, 1)+`, "max_tokens": 8, "continue_final_message": true`)
	if rest == "" || !strings.HasPrefix(first, begun+rest) {
		t.Errorf("%q goes on with %q, the whole is %q", begun, rest, first)
	}
	if _, body := post(t, h, "/v1/chat/completions/render", "{"+story+`, "add_generation_prompt": false}`); strings.Contains(body, "assistant") {
		t.Error(body)
	}
}

// TestBestOf: of several answers the likeliest come back, and all are paid for.
func TestBestOf(t *testing.T) {
	h, _ := start(t, ridge.Options{}, server.Options{})
	const body = `{"prompt": ["The cat", "The dog"], "temperature": 1.5, "seed": 3, "max_tokens": 6, "ignore_eos": true, "logprobs": 0, `
	_, text := post(t, h, "/v1/completions", body+`"n": 4}`)
	all := parse(t, text)
	_, text = post(t, h, "/v1/completions", body+`"n": 1, "best_of": 4}`)
	best := parse(t, text)
	if len(best.Choices) != 2 || best.Usage.Completion != all.Usage.Completion || best.Usage.Prompt != all.Usage.Prompt {
		t.Fatalf("%d choices, usage %+v and %+v", len(best.Choices), *best.Usage, *all.Usage)
	}
	for i, c := range best.Choices {
		for _, other := range all.Choices[4*i : 4*i+4] {
			if sum(other.Logprobs.Logprobs) > sum(c.Logprobs.Logprobs) {
				t.Errorf("%q was chosen and %q is likelier", c.Text, other.Text)
			}
		}
		if c.Index != i {
			t.Errorf("choice %d is called %d", i, c.Index)
		}
	}
}

func sum(list []float64) (s float64) {
	for _, x := range list {
		s += x
	}
	return s
}

// TestFieldsRefused: what is not done is refused by name, and what asks for nothing is not.
func TestFieldsRefused(t *testing.T) {
	h, _ := start(t, ridge.Options{Context: 64}, server.Options{})
	for _, c := range []struct{ path, fields, name string }{
		{"/v1/chat/completions", `"audio": {"voice": "a"}`, "audio"},
		{"/v1/chat/completions", `"modalities": ["text", "audio"]`, "modalities"},
		{"/v1/chat/completions", `"functions": [{"name": "f"}]`, "functions"},
		{"/v1/chat/completions", `"store": true`, "store"},
		{"/v1/chat/completions", `"mirostat": 3`, "mirostat"},
		{"/v1/chat/completions", `"mirostat_tau": -1`, "mirostat_tau"},
		{"/v1/chat/completions", `"xtc_probability": 1.1`, "xtc_probability"},
		{"/v1/chat/completions", `"xtc_threshold": -1`, "xtc_threshold"},
		{"/v1/chat/completions", `"dynatemp_range": -1`, "dynatemp_range"},
		{"/v1/chat/completions", `"dynatemp_exponent": 0`, "dynatemp_exponent"},
		{"/v1/chat/completions", `"dry_multiplier": -0.8`, "dry_multiplier"},
		{"/v1/chat/completions", `"dry_base": 0.5`, "dry_base"},
		{"/v1/chat/completions", `"dry_allowed_length": -1`, "dry_allowed_length"},
		{"/v1/chat/completions", `"dry_penalty_last_n": -2`, "dry_penalty_last_n"},
		{"/v1/chat/completions", `"dry_multiplier": 1, "dry_sequence_breakers": []`, "dry_sequence_breakers"},
		{"/v1/chat/completions", `"dry_multiplier": 1, "dry_sequence_breakers": [""]`, "dry_sequence_breakers"},
		{"/v1/chat/completions", `"samplers": ["top_q"]`, "samplers"},
		{"/v1/chat/completions", `"n_predict": 3, "max_tokens": 4`, "n_predict"},
		{"/v1/chat/completions", `"n_predict": -2`, "n_predict"},
		{"/v1/chat/completions", `"repeat_penalty": 1.1, "repetition_penalty": 1.2`, "repeat_penalty"},
		{"/v1/chat/completions", `"repeat_last_n": -2`, "repeat_last_n"},
		{"/v1/chat/completions", `"truncation": "always"`, "truncation"},
		{"/v1/chat/completions", `"prompt_logprobs": 21`, "prompt_logprobs"},
		{"/v1/chat/completions", `"beam_width": 3`, "beam_width"},
		{"/v1/chat/completions", `"continue_final_message": true`, "continue_final_message"},
		{"/v1/chat/completions", `"min_tokens": 5, "max_tokens": 4`, "min_tokens"},
		{"/v1/chat/completions", `"min_tokens": -1`, "min_tokens"},
		{"/v1/chat/completions", `"stop_token_ids": [100000]`, "stop_token_ids"},
		{"/v1/chat/completions", `"allowed_token_ids": [-1]`, "allowed_token_ids"},
		{"/v1/chat/completions", `"min_tokens": 3, "guided_choice": ["a"]`, "min_tokens"},
		{"/v1/completions", `"suffix": "x"`, "suffix"},
		{"/v1/completions", `"max_tokens": -1`, "max_tokens"},
		{"/v1/completions", `"max_tokens": -1, "echo": true`, "max_tokens"},
		{"/v1/completions", `"best_of": 2, "n": 3`, "best_of"},
		{"/v1/completions", `"best_of": 129`, "best_of"},
		{"/v1/completions", `"best_of": 2, "stream": true`, "best_of"},
		{"/v1/completions", `"truncate_prompt_tokens": 5`, "truncate_prompt_tokens"},
	} {
		status, body := post(t, h, c.path, `{"prompt": "x", `+story+", "+c.fields+"}")
		if a := parse(t, body); status != 400 || a.Error == nil || a.Error.Param != c.name || !strings.HasPrefix(a.Error.Message, c.name+" ") {
			t.Errorf("%s: %d %s", c.fields, status, body)
		}
	}
	status, body := post(t, h, "/v1/chat/completions", "{"+story+`, "max_tokens": 2, "store": false, "modalities": ["text"], "audio": null, "length_penalty": 1.0, "mirostat": 0.0, "xtc_probability": 0.0, "top_n_sigma": -1.0, "service_tier": "flex", "prediction": {"type": "content", "content": "x"}, "reasoning_effort": "low", "metadata": {"a": "b"}}`)
	if status != 200 {
		t.Errorf("%d %s", status, body)
	}
}
