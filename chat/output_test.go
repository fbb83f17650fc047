package chat

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// transcript joins neighbouring deltas of one kind: what a client sees in the end.
func transcript(deltas []Delta) string {
	var b strings.Builder
	last := ""
	for _, d := range deltas {
		kind, text := "content", d.Content
		switch {
		case d.Call != nil && d.Call.Name != "":
			kind, text = fmt.Sprintf("call %d", d.Call.Index), d.Call.Name
		case d.Call != nil:
			kind, text = fmt.Sprintf("arguments %d", d.Call.Index), d.Call.Arguments
		case d.Reasoning != "":
			kind, text = "reasoning", d.Reasoning
		}
		if kind != last {
			fmt.Fprintf(&b, "\n%s: ", kind)
		}
		b.WriteString(text)
		last = kind
	}
	return strings.TrimPrefix(b.String(), "\n")
}

// parsePieces feeds pieces to a new parser.
func parsePieces(o OutputOptions, pieces ...string) string {
	p := NewOutputParser(o)
	var deltas []Delta
	for _, piece := range pieces {
		deltas = append(deltas, p.Feed(piece)...)
	}
	return transcript(append(deltas, p.Finish()...))
}

var outputCases = []struct {
	name   string
	opts   OutputOptions
	output string
	want   string
}{
	{"plain", OutputOptions{}, "  Hello,\nworld. \n", "content:   Hello,\nworld. \n"},
	{"nothing", OutputOptions{}, "", ""},
	{"think", OutputOptions{Style: think}, "<think>\nHm, 1 < 2.\n\n</think>\n\nYes. \n", "reasoning: Hm, 1 < 2.\ncontent: Yes. \n"},
	{"space before thinking", OutputOptions{Style: think}, "\n\n<think>a</think>b", "reasoning: a\ncontent: b"},
	{"the prompt opened it", OutputOptions{Style: think, InReasoning: true}, "Hm.</think>Yes", "reasoning: Hm.\ncontent: Yes"},
	{"cut off in thought", OutputOptions{Style: think}, "<think>Hm </thi", "reasoning: Hm </thi"},
	{"no thought", OutputOptions{Style: think}, "<think>\n\n</think>\n\nYes", "content: Yes"},
	{"mistral thinks", OutputOptions{Style: Style{ThinkOpen: "[THINK]", ThinkClose: "[/THINK]"}}, "[THINK]a[/THINK]b [x]", "reasoning: a\ncontent: b [x]"},

	{"hermes", withTools(Hermes), "Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"}<\\\"\", \"b\": [1, {}]}}\n</tool_call>\n<tool_call>{\"name\":\"g\",\"arguments\":{}}</tool_call>",
		"content: Let me see.\ncall 0: f\narguments 0: {\"a\": \"}<\\\"\", \"b\": [1, {}]}\ncall 1: g\narguments 1: {}"},
	{"hermes, arguments first", withTools(Hermes), `<tool_call>{"arguments": {"x": 1}, "name": "f"}</tool_call>`, "call 0: f\narguments 0: {\"x\": 1}"},
	{"hermes, arguments as text", withTools(Hermes), `<tool_call>{"name": "f", "arguments": "{\"x\": \"é\\n\"}"}</tool_call> done`, "call 0: f\narguments 0: {\"x\": \"é\\n\"}\ncontent: done"},
	{"hermes, no arguments", withTools(Hermes), `<tool_call>{"name": "f"}</tool_call>`, "call 0: f\narguments 0: {}"},
	{"hermes, null arguments", withTools(Hermes), `<tool_call>{"name": "f", "arguments": null}</tool_call>`, "call 0: f\narguments 0: null"},
	{"hermes, no closing tag", withTools(Hermes), `<tool_call>{"name": "f", "arguments": {}} and more`, "call 0: f\narguments 0: {}\ncontent: and more"},
	{"hermes, cut off", withTools(Hermes), `<tool_call>{"name": "f", "arguments": {"a": "b`, "call 0: f\narguments 0: {\"a\": \"b"},
	{"hermes, cut off early", withTools(Hermes), `a <tool_call>{"na`, `content: a <tool_call>{"na`},
	{"hermes, not a call", withTools(Hermes), `<tool_call>{"x": 1}</tool_call>`, `content: <tool_call>{"x": 1}</tool_call>`},
	{"hermes, not JSON", withTools(Hermes), `a <tool_call>f(1)</tool_call>`, `content: a <tool_call>f(1)</tool_call>`},
	{"hermes, broken inside", withTools(Hermes), `<tool_call>{"name": "f", nonsense}</tool_call>b`, "call 0: f\ncontent: b"},
	{"hermes, no tools offered", OutputOptions{Style: Style{Tools: Hermes}}, `<tool_call>{"name": "f"}</tool_call>`, `content: <tool_call>{"name": "f"}</tool_call>`},
	{"hermes, thinking", OutputOptions{Style: Style{Hermes, "<think>", "</think>"}, Tools: tools}, "<think>\ncall f\n</think>\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>", "reasoning: call f\ncall 0: f\narguments 0: {}"},
	{"hermes, a tag that is none", withTools(Hermes), "a <tool_cal> <t <", "content: a <tool_cal> <t <"},

	{"llama", withTools(Llama3), `{"name": "f", "parameters": {"a": "b"}}`, "call 0: f\narguments 0: {\"a\": \"b\"}"},
	{"llama, two", withTools(Llama3), `{"name": "f", "parameters": {}}; {"name": "g", "parameters": {"x": 2}}`, "call 0: f\narguments 0: {}\ncall 1: g\narguments 1: {\"x\": 2}"},
	{"llama, with a type", withTools(Llama3), "\n" + `{"type": "function", "name": "f", "parameters": {}}`, "call 0: f\narguments 0: {}"},
	{"llama, python tag", withTools(Llama3), `<|python_tag|>{"name": "f", "parameters": {}}`, "call 0: f\narguments 0: {}"},
	{"llama, text then tag", withTools(Llama3), `I call. <|python_tag|>{"name": "f", "parameters": {}}`, "content: I call.\ncall 0: f\narguments 0: {}"},
	{"llama, other JSON", withTools(Llama3), `{"answer": {"name": "f"}}`, `content: {"answer": {"name": "f"}}`},
	{"llama, a person", withTools(Llama3), `{"name": "Pip", "age": 3}`, `content: {"name": "Pip", "age": 3}`},
	{"llama, text", withTools(Llama3), "Hi {", "content: Hi {"},

	{"mistral", withTools(Mistral), `[TOOL_CALLS][{"name": "f", "arguments": {"a": [1]}}, {"name": "g", "arguments": {}, "id": "abcdefgh1"}]`, "call 0: f\narguments 0: {\"a\": [1]}\ncall 1: g\narguments 1: {}"},
	{"mistral, names", withTools(Mistral), `Sure.[TOOL_CALLS]f[ARGS]{"a": "}"}[TOOL_CALLS]g[CALL_ID]123456789[ARGS]{}`, "content: Sure.\ncall 0: f\narguments 0: {\"a\": \"}\"}\ncall 1: g\narguments 1: {}"},
	{"mistral, bare names", withTools(Mistral), `[TOOL_CALLS]f{"a": 1}`, "call 0: f\narguments 0: {\"a\": 1}"},
	{"mistral, cut off", withTools(Mistral), `[TOOL_CALLS]f`, "content: [TOOL_CALLS]f"},

	{"deepseek v3", withTools(DeepSeek), "Wait.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": \"```\"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
		"content: Wait.\ncall 0: f\narguments 0: {\"a\": \"```\"}\ncall 1: g\narguments 1: {}"},
	{"deepseek v3.1", OutputOptions{Style: Style{DeepSeek, "<think>", "</think>"}, Tools: tools, InReasoning: true}, "hm</think><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": 1}<｜tool▁call▁end｜><｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
		"reasoning: hm\ncall 0: f\narguments 0: {\"a\": 1}\ncall 1: g\narguments 1: {}"},

	{"coder", withTools(Coder), "I look.\n<tool_call>\n<function=f>\n<parameter=city>\nSão \"P\"\n\n</parameter>\n<parameter=n>\n3\n</parameter>\n<parameter=on>\nTrue\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=g>\n</function>\n</tool_call>",
		"content: I look.\ncall 0: f\narguments 0: {\"city\": \"São \\\"P\\\"\\n\", \"n\": 3, \"on\": true}\ncall 1: g\narguments 1: {}"},
	{"coder, texts", texts(Coder), "<tool_call><function=f><parameter=a>1</parameter><parameter=b>\n</parameter><parameter=c>\n\n\nx <y>\t\n\n</parameter></function></tool_call>done",
		"call 0: f\narguments 0: {\"a\": \"1\", \"b\": \"\", \"c\": \"\\n\\nx <y>\\u0009\\n\"}\ncontent: done"},
	{"coder, objects", withTools(Coder), "<tool_call><function=f><parameter=a>{\"b\": [1, null]}</parameter></function></tool_call>", "call 0: f\narguments 0: {\"a\": {\"b\": [1, null]}}"},
	{"coder, not a call", withTools(Coder), "a <tool_call>\n{\"name\": \"f\"}</tool_call>", "content: a <tool_call>\n{\"name\": \"f\"}</tool_call>"},
	{"coder, a name without end", withTools(Coder), "<tool_call><function=" + long, "content: <tool_call><function=" + long},
	{"coder, a key without end", withTools(Coder), "<tool_call><function=f><parameter=" + long, "call 0: f\narguments 0: {}\ncontent: <parameter=" + long},
	{"coder, cut off in a text", texts(Coder), "<tool_call><function=f><parameter=a>\nso\n", "call 0: f\narguments 0: {\"a\": \"so"},
	{"coder, something else inside", withTools(Coder), "<tool_call><function=f>x</function>", "call 0: f\narguments 0: {}\ncontent: x</function>"},
	{"seed", withTools(Seed), "<seed:tool_call>\n<function=f>\n<parameter=a>1.5</parameter>\n</function>\n</seed:tool_call>", "call 0: f\narguments 0: {\"a\": 1.5}"},
	{"glm", withTools(GLM), "\n<tool_call>f\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n<arg_key>n</arg_key>\n<arg_value>3</arg_value>\n</tool_call>\n<tool_call>g\n</tool_call>", "call 0: f\narguments 0: {\"city\": \"Paris\", \"n\": 3}\ncall 1: g\narguments 1: {}"},
	{"glm, on one line", texts(GLM), "<tool_call>f<arg_key>a</arg_key><arg_value>3</arg_value></tool_call>", "call 0: f\narguments 0: {\"a\": \"3\"}"},
	{"glm, not a call", withTools(GLM), "<tool_call> is a tag\n", "content: <tool_call> is a tag\n"},

	{"harmony", withTools(Harmony), `<|channel|>analysis<|message|>Think <b>.<|end|><|start|>assistant<|channel|>commentary<|message|>I call.<|end|><|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": 1}<|call|>`,
		"reasoning: Think <b>.\ncontent: I call.\ncall 0: f\narguments 0: {\"a\": 1}"},
	{"harmony, recipient first", withTools(Harmony), ` to=functions.f<|channel|>commentary json<|message|>{}<|call|>`, "call 0: f\narguments 0: {}"},
	{"harmony, final", withTools(Harmony), `<|channel|>final<|message|>Yes. <|return|>`, "content: Yes."},
	{"harmony, end missing", withTools(Harmony), `<|channel|>analysis<|message|>a<|start|>assistant<|channel|>final<|message|>b`, "reasoning: a\ncontent: b"},
	{"harmony, no header", withTools(Harmony), "Hello <|x|>", "content: Hello <|x|>"},
	{"harmony, a header without end", withTools(Harmony), "<|channel|>" + long, "content: <|channel|>" + long},
	{"mistral, a name without end", withTools(Mistral), "[TOOL_CALLS]" + long, "content: [TOOL_CALLS]" + long},
	{"deepseek, a name without end", withTools(DeepSeek), deepSeekBegin + deepSeekCallBegin + long, "content: " + deepSeekBegin + deepSeekCallBegin + long},
	{"harmony, cut off in a header", withTools(Harmony), "<|channel|>analysis<|message|>a<|end|><|start|>assis", "reasoning: a"},
}

var (
	think = Style{ThinkOpen: "<think>", ThinkClose: "</think>"}
	tools = []string{"f", "g"}
	long  = strings.Repeat("x", maxHead)
)

// texts is withTools for tools all of whose parameters are texts.
func texts(style ToolStyle) OutputOptions {
	o := withTools(style)
	o.IsText = func(string, string) bool { return true }
	return o
}

func withTools(style ToolStyle) OutputOptions {
	return OutputOptions{Style: Style{Tools: style}, Tools: tools}
}

// TestOutput reads each output whole, byte by byte, and cut in two at every place, and demands the same each time.
func TestOutput(t *testing.T) {
	for _, c := range outputCases {
		if got := parsePieces(c.opts, c.output); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, c.want)
			continue
		}
		if got := parsePieces(c.opts, strings.Split(c.output, "")...); got != c.want {
			t.Errorf("%s, character by character: got\n%s\nwant\n%s", c.name, got, c.want)
		}
		for i := range len(c.output) {
			if got := parsePieces(c.opts, c.output[:i], c.output[i:]); got != c.want {
				t.Errorf("%s, cut at %d: got\n%s\nwant\n%s", c.name, i, got, c.want)
			}
		}
	}
}

// TestOutputStreams: pieces come as soon as they are certain, not at the end.
func TestOutputStreams(t *testing.T) {
	p := NewOutputParser(withTools(Hermes))
	for i, step := range []struct{ feed, want string }{
		{"Let me", "content: Let me"},
		{" see <", "content:  see"},
		{"tool_call>{\"name\": \"f\",", "call 0: f"},
		{" \"arguments\": {\"a\": \"so", "arguments 0: {\"a\": \"so"},
		{"me\"", "arguments 0: me\""},
		{"}}</tool_call>", "arguments 0: }"},
	} {
		if got := transcript(p.Feed(step.feed)); got != step.want {
			t.Errorf("step %d: got %q, want %q", i, got, step.want)
		}
	}
}

func TestDetectStyle(t *testing.T) {
	want := map[string]Style{
		"Qwen-Qwen2.5-7B-Instruct.jinja":                    {Tools: Hermes},
		"Qwen-Qwen3-0.6B.jinja":                             {Hermes, "<think>", "</think>"},
		"NousResearch-Hermes-3-Llama-3.1-8B-tool_use.jinja": {Tools: Hermes},
		"meta-llama-Llama-3.1-8B-Instruct.jinja":            {Tools: Llama3},
		"meta-llama-Llama-3.2-3B-Instruct.jinja":            {Tools: Llama3},
		"mistralai-Mistral-Nemo-Instruct-2407.jinja":        {Tools: Mistral},
		"Mistral-Small-3.2-24B-Instruct-2506.jinja":         {Tools: Devstral},
		"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja":    {R1, "<think>", "</think>"},
		"deepseek-ai-DeepSeek-V3.1.jinja":                   {DeepSeek, "<think>", "</think>"},
		"openai-gpt-oss-120b.jinja":                         {Tools: Harmony},
		"Qwen3-Coder.jinja":                                 {Tools: Coder},
		"GLM-4.6.jinja":                                     {GLM, "<think>", "</think>"},
		"ByteDance-Seed-OSS.jinja":                          {Seed, "<seed:think>", "</seed:think>"},
		"microsoft-Phi-3.5-mini-instruct.jinja":             {},
	}
	for source, style := range map[string]Style{
		"<tool_call>": {Tools: Hermes}, "{{ '<|python_tag|>' }}": {Tools: Llama3}, "[TOOL_CALLS] [THINK]": {Mistral, "[THINK]", "[/THINK]"},
		deepSeekBegin: {Tools: DeepSeek}, "<|channel|>analysis<|message|>": {Tools: Harmony}, "plain": {},
	} {
		if got := DetectStyle(source); got != style {
			t.Errorf("%q: got %v, want %v", source, got, style)
		}
	}
	if !think.StartsInReasoning("<|im_start|>assistant\n<think>\n") || think.StartsInReasoning("<think>\n\n</think>\n\n") || (Style{}).StartsInReasoning("x") {
		t.Error("StartsInReasoning is wrong")
	}
	if !think.HasReasoned("<think>\n\n</think>\n\n") || think.HasReasoned("<think>\n") || (Style{}).HasReasoned("x") {
		t.Error("HasReasoned is wrong")
	}
	for file, style := range want {
		source, err := os.ReadFile(filepath.Join("../../shared/reference/templates", file))
		if err != nil {
			t.Skip("the reference templates are not here")
		}
		if got := DetectStyle(string(source)); got != style {
			t.Errorf("%s: got %v, want %v", file, got, style)
		}
	}
}

// FuzzOutput: whatever the output, what is read from it does not depend on the cut, and the arguments of a call that a
// style takes from whole JSON objects stay what the model wrote.
func FuzzOutput(f *testing.F) {
	for _, c := range outputCases {
		f.Add(c.output, string(c.opts.Style.Tools), 3)
	}
	for style, text := range forms() {
		f.Add(text, string(style), 4)
	}
	f.Fuzz(func(t *testing.T, output, style string, cut int) {
		o := OutputOptions{Style: Style{ToolStyle(style), "<think>", "</think>"}, Tools: tools, InReasoning: cut%2 == 0}
		switch o.Style.Tools {
		case Hermes, Llama3, Mistral, Devstral, DeepSeek, R1, Harmony, Coder, Seed, GLM:
		default:
			o.Tools = nil
		}
		whole := parsePieces(o, output)
		if got := parsePieces(o, strings.Split(output, "")...); got != whole {
			t.Errorf("whole:\n%s\ncharacter by character:\n%s", whole, got)
		}
		if cut >= 0 && cut <= len(output) {
			if got := parsePieces(o, output[:cut], output[cut:]); got != whole {
				t.Errorf("whole:\n%s\ncut at %d:\n%s", whole, cut, got)
			}
		}
		call, err := json.Marshal(map[string]string{"text": output})
		if err != nil || o.Style.Tools != Hermes || o.InReasoning {
			return
		}
		want := "call 0: f\narguments 0: " + string(call)
		if got := parsePieces(o, `<tool_call>{"name": "f", "arguments": `+string(call)+`}</tool_call>`); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}
