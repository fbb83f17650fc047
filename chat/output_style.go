package chat

import "strings"

// ToolStyle is a way in which models write tool calls.
type ToolStyle string

// The styles. The model's chat template shows its style, as it repeats earlier calls in it.
const (
	NoTools  ToolStyle = ""
	Hermes   ToolStyle = "hermes"   // <tool_call>{"name": …, "arguments": …}</tool_call>: Hermes, Qwen
	Llama3   ToolStyle = "llama3"   // the answer is {"name": …, "parameters": …}
	Mistral  ToolStyle = "mistral"  // [TOOL_CALLS][{"name": …, "arguments": …}]
	Devstral ToolStyle = "devstral" // [TOOL_CALLS]name[ARGS]{…}: Mistral's models since 2025
	DeepSeek ToolStyle = "deepseek" // <｜tool▁calls▁begin｜> … <｜tool▁calls▁end｜>
	R1       ToolStyle = "r1"       // the same with arguments in a code block: DeepSeek V3 and R1
	Coder    ToolStyle = "coder"    // <tool_call><function=name><parameter=key>value</parameter>…</function></tool_call>: Qwen3-Coder
	Seed     ToolStyle = "seed"     // the same in <seed:tool_call>: Seed-OSS
	GLM      ToolStyle = "glm"      // <tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value>…</tool_call>: GLM 4.5 and later
	Harmony  ToolStyle = "harmony"  // <|channel|>commentary to=functions.name<|message|>{…}<|call|>: gpt-oss
)

// Style is how a model's output is laid out.
type Style struct {
	Tools                 ToolStyle
	ThinkOpen, ThinkClose string // around reasoning; "" when the model does not mark any, or Tools is Harmony
}

// DetectStyle tells the style from the text of the model's chat template.
func DetectStyle(template string) Style {
	has := func(s string) bool { return strings.Contains(template, s) }
	var s Style
	switch {
	case has("<|channel|>") && has("<|message|>"):
		return Style{Tools: Harmony}
	case has(deepSeekBegin):
		s.Tools = DeepSeek
		if has("```json") {
			s.Tools = R1
		}
	case has(mistralBegin):
		s.Tools = Mistral
		if has(mistralArgs) {
			s.Tools = Devstral
		}
	case has(seedBegin):
		s.Tools = Seed
	case has("<tool_call>") && has("<function="):
		s.Tools = Coder
	case has("<tool_call>") && has("<arg_key>"):
		s.Tools = GLM
	case has("<tool_call>"):
		s.Tools = Hermes
	case has("<|python_tag|>") || has("<|start_header_id|>") && has("parameters"):
		s.Tools = Llama3
	}
	for _, tags := range [][2]string{{"<think>", "</think>"}, {"[THINK]", "[/THINK]"}, {"<seed:think>", "</seed:think>"}, {"<|START_THINKING|>", "<|END_THINKING|>"}} {
		if has(tags[0]) || has(tags[1]) {
			s.ThinkOpen, s.ThinkClose = tags[0], tags[1]
			break
		}
	}
	return s
}

// StartsInReasoning reports whether a prompt ends where reasoning begins, so that the output begins inside it.
func (s Style) StartsInReasoning(prompt string) bool {
	return s.ThinkOpen != "" && strings.HasSuffix(strings.TrimRight(prompt, whiteSpace), s.ThinkOpen)
}

// HasReasoned reports whether a prompt ends where reasoning is over: it was left out, or the assistant's own.
func (s Style) HasReasoned(prompt string) bool {
	return s.ThinkClose != "" && strings.HasSuffix(strings.TrimRight(prompt, whiteSpace), s.ThinkClose)
}

// opening is the tag that begins a call in content.
func (t ToolStyle) opening() string {
	switch t {
	case Hermes:
		return hermesBegin
	case Llama3:
		return llamaBegin
	case Mistral, Devstral:
		return mistralBegin
	case DeepSeek, R1:
		return deepSeekBegin
	case Coder, Seed, GLM:
		return t.xml().begin
	}
	return ""
}

// call is the state behind that tag.
func (t ToolStyle) call() state {
	switch t {
	case Hermes:
		return (*OutputParser).hermesCall
	case Llama3:
		return (*OutputParser).llamaCall
	case Mistral, Devstral:
		return (*OutputParser).mistralCalls
	case Coder, Seed, GLM:
		return (*OutputParser).xmlName
	}
	return (*OutputParser).deepSeekCalls
}
