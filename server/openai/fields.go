package openai

import (
	"maps"

	"github.com/ridge-llm/ridge/server/api"
)

// commonRefusals are those of chat answers and completions.
var commonRefusals = merged(SamplerRefusals, map[string]api.Refusal{
	"truncate_prompt_tokens":        {Harmless: "", Why: "prompts are never cut; shorten yours"},
	"bad_words":                     {Harmless: "[]", Why: "forbid tokens with logit_bias -100"},
	"logits_processors":             {Harmless: "[]", Why: "no code is run for a request; logit_bias and guided_* steer answers"},
	"spaces_between_special_tokens": {Harmless: "true", Why: "text is decoded as the tokenizer does it"},
	"return_tokens_as_token_ids":    {Harmless: "false", Why: "return_token_ids names the tokens"},
})

// chatRefusals are those of chat answers alone.
var chatRefusals = merged(commonRefusals, map[string]api.Refusal{
	"prompt_embeds":       {Harmless: "", Why: "a conversation is text; /v1/completions takes prompts of embeddings"},
	"audio":               {Harmless: "", Why: "only text is made"},
	"modalities":          {Harmless: `["text"]`, Why: "only text is made"},
	"functions":           {Harmless: "[]", Why: "use tools"},
	"function_call":       {Harmless: `"auto" "none"`, Why: "use tool_choice"},
	"web_search_options":  {Harmless: "", Why: "there is no web search here"},
	"verbosity":           {Harmless: `"medium"`, Why: "state the wanted length in the conversation"},
	"store":               {Harmless: "false", Why: "answers are not kept"},
	"echo":                {Harmless: "false", Why: "the conversation is not repeated in the answer"},
	"chat_template":       {Harmless: "", Why: "the template is chosen when the server starts (--chat-template)"},
	"mm_processor_kwargs": {Harmless: "", Why: "only text is read"},
	"add_special_tokens":  {Harmless: "false", Why: "the chat template writes the special tokens"},
	"skip_special_tokens": {Harmless: "true", Why: "tool calls and reasoning are parsed from special tokens; /v1/completions can show them"},
})

// completionRefusals are those of completions alone.
var completionRefusals = merged(commonRefusals, map[string]api.Refusal{
	"add_special_tokens": {Harmless: "true", Why: "give the prompt as token ids to choose yourself"},
})

func merged(a, b map[string]api.Refusal) map[string]api.Refusal {
	m := maps.Clone(a)
	maps.Copy(m, b)
	return m
}

// Refuses lists the fields of chat requests that are not supported.
func (q *ChatRequest) Refuses() map[string]api.Refusal { return chatRefusals }

// Refuses lists the fields of completion requests that are not supported.
func (q *CompletionRequest) Refuses() map[string]api.Refusal { return completionRefusals }
