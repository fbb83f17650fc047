package ridge

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/tokenizer"
)

// Templates by which the styles are known, as far as that takes.
const (
	hermesTemplate  = "tools <tool_call>"
	qwen3Template   = "tools <tool_call> <think> </think>"
	llamaTemplate   = "tools <|python_tag|>"
	nemoTemplate    = "tools [TOOL_CALLS]"
	mistralTemplate = "tools [TOOL_CALLS][ARGS] [THINK] [/THINK]"
	r1Template      = "tools <｜tool▁calls▁begin｜> ```json <think> </think>"
	v31Template     = "tools <｜tool▁calls▁begin｜>"
	coderTemplate   = "tools <tool_call> <function="
	seedTemplate    = "tools <seed:tool_call> <seed:think> </seed:think>"
	glmTemplate     = "tools <tool_call> <arg_key>"
	gptTemplate     = "tools <|channel|> <|message|>"
)

// TestConstrainReply says, for every style, answers that are allowed and answers that are not.
func TestConstrainReply(t *testing.T) {
	f := Tool{Name: "f", Parameters: json.RawMessage(`{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}`)}
	g := Tool{Name: "g"}
	city := Tool{Name: "city", Parameters: json.RawMessage(`{"type": "object", "properties": {"name": {"type": "string"}, "kind": {"enum": ["big", "small"]},
		"code": {"type": "string", "pattern": "^[A-Z]{2}"}, "tags": {"type": "array", "items": {"type": "string"}}}, "required": ["name"]}`)}
	strict := f
	strict.Strict = true
	number := Regex("[0-9]+")
	required := Reply{Tools: []Tool{f, g}, Required: true}
	single := Reply{Tools: []Tool{f, g}, Required: true, Single: true}
	auto := Reply{Tools: []Tool{strict, g}}
	const thought, final = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant", "<|channel|>final<|message|>"
	for _, c := range []struct {
		template, prompt string
		reply            Reply
		yes, no          []string
	}{
		{hermesTemplate, "", required, []string{"<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>\n<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>"},
			[]string{"", "Hi", "<tool_call>\n{\"name\": \"h\", \"arguments\": {}}\n</tool_call>", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"1\"}}\n</tool_call>", "<tool_call>\n{\"name\": \"g\", \"arguments\": {\"b\": 1}}\n</tool_call>"}},
		{hermesTemplate, "", single, []string{"<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>"},
			[]string{"<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>"}},
		{hermesTemplate, "", auto, []string{"", "Hi {<tool", "I call.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>", "<tool_call>\n{\"name\": \"g\", \"arguments\": {\"b\": [1, {}]}}\n</tool_call>"},
			[]string{"<tool_call>x", "Hi<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call> Done."}},
		{hermesTemplate, "", Reply{Tools: []Tool{g}, Content: number}, []string{"12", "<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>"}, []string{"x", "1<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>"}},

		{qwen3Template, "", Reply{Content: number}, []string{"12", "<think>\nHm 1 < 2.\n</think>\n\n12", "\n<think></think>3"}, []string{"<think>1", "x</think>1", "<think></think>x", "<think>a</think>1</think>1"}},
		{qwen3Template, "<think>\n", Reply{Content: number}, []string{"Hm.</think>\n\n12", "</think>1"}, []string{"12", "<think>a</think>x"}},
		{qwen3Template, "<think>\n\n</think>\n\n", Reply{Content: number}, []string{"12"}, []string{"<think>\n</think>12"}},
		{qwen3Template, "", auto, []string{"<think>Not <tool_call>?</think>\n\nHi"}, []string{"<think>Not</think>Hi<tool_call>?"}},

		{llamaTemplate, "", required, []string{`{"name": "f", "parameters": {"a": 1}}; {"name": "g", "parameters": {}}`}, []string{`{"name": "f", "arguments": {"a": 1}}`, "Hi"}},
		{llamaTemplate, "", auto, []string{`{"name": "f", "parameters": {"a": 1}}`, "Hi {", ""}, []string{`{"name": "f", "parameters": {}}`, "{}", " Hi"}},
		{nemoTemplate, "", required, []string{`[TOOL_CALLS][{"name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": {}}]`}, []string{`[TOOL_CALLS]f[ARGS]{"a": 1}`}},
		{nemoTemplate, "", auto, []string{`Sure.[TOOL_CALLS][{"name": "f", "arguments": {"a": 1}}]`, "[TOOL", "no"}, []string{"[TOOL_CALLS]"}},
		{mistralTemplate, "", required, []string{`[TOOL_CALLS]f[ARGS]{"a": 1}[TOOL_CALLS]g[ARGS]{}`, `[THINK]a[/THINK][TOOL_CALLS]g[ARGS]{}`}, []string{`[TOOL_CALLS]h[ARGS]{}`}},
		{r1Template, "", required, []string{"<think>a</think>\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": 1}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"}, []string{"<｜tool▁calls▁begin｜><｜tool▁calls▁end｜>"}},
		{v31Template, "", single, []string{"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": 1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"}, []string{"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"}},

		{coderTemplate, "", Reply{Tools: []Tool{f, g, city}, Required: true}, []string{
			"<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=g>\n</function>\n</tool_call>",
			"<tool_call>\n<function=city>\n<parameter=name>\nSão \"P\" < </p\n\nx\n</parameter>\n<parameter=kind>\nbig\n</parameter>\n<parameter=tags>\n[\"a\", \"b\"]\n</parameter>\n</function>\n</tool_call>",
			"<tool_call>\n<function=city>\n<parameter=name>\n\n</parameter>\n<parameter=code>\nAB12\n</parameter>\n</function>\n</tool_call>"},
			[]string{"", "Hi", "<tool_call>\n<function=h>\n</function>\n</tool_call>", "<tool_call>\n<function=f>\n<parameter=a>\n\"1\"\n</parameter>\n</function>\n</tool_call>", "<tool_call>\n<function=f>\n</function>\n</tool_call>",
				"<tool_call>\n<function=g>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>", "<tool_call>\n<function=city>\n<parameter=name>\nx\n</parameter>\n<parameter=kind>\nhuge\n</parameter>\n</function>\n</tool_call>",
				"<tool_call>\n<function=city>\n<parameter=name>\nx\n</parameter>\n<parameter=code>\nab\n</parameter>\n</function>\n</tool_call>"}},
		{coderTemplate, "", Reply{Tools: []Tool{f, g}, Required: true, Single: true}, []string{"<tool_call>\n<function=g>\n</function>\n</tool_call>"}, []string{"<tool_call>\n<function=g>\n</function>\n</tool_call>\n<tool_call>\n<function=g>\n</function>\n</tool_call>"}},
		{coderTemplate, "", auto, []string{"", "Hi <tool", "I call.\n<tool_call>\n<function=f>\n<parameter=a>\n12\n</parameter>\n</function>\n</tool_call>", "<tool_call>\n<function=g>\n<parameter=any>\nthing\n</parameter>\n</function>\n</tool_call>"},
			[]string{"<tool_call>x", "<tool_call>\n<function=f>\n<parameter=a>\nx\n</parameter>\n</function>\n</tool_call>"}},
		{seedTemplate, "", required, []string{"<seed:think>Hm.</seed:think>\n<seed:tool_call>\n<function=f>\n<parameter=a>-1</parameter>\n</function>\n</seed:tool_call>"}, []string{"<seed:tool_call>\n<function=f>\n</function>\n</seed:tool_call>", "Hi"}},
		{glmTemplate, "", required, []string{"<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>\n<tool_call>g\n</tool_call>", "<tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value></tool_call><tool_call>g</tool_call>"},
			[]string{"<tool_call>f</tool_call>", "<tool_call>f<arg_key>a</arg_key><arg_value>x</arg_value></tool_call>", "<tool_call>g<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>"}},

		{gptTemplate, "", Reply{Content: number}, []string{thought + final + "12", thought + thought + "<|channel|>final <|constrain|>json<|message|>1", final + "1"}, []string{"12", thought, thought + final + "x", "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}"}},
		{gptTemplate, "", required, []string{thought + "<|channel|>commentary<|message|>I call.<|end|><|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\":1}"}, []string{thought + final + "12", "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}"}},
		{gptTemplate, "", auto, []string{final + "Hi {", "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\":1}"}, []string{"<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}"}},
	} {
		m, err := Load("", Options{Threads: 1, Template: c.template, Context: 16})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		constraint, err := m.ConstrainReply(t.Context(), c.prompt, c.reply)
		if err != nil {
			t.Errorf("%s: %v", c.template, err)
			continue
		}
		for want, texts := range map[bool][]string{true: c.yes, false: c.no} {
			for _, text := range texts {
				if got := allows(t, m, constraint, text); got != want {
					t.Errorf("%s: %q is allowed: %v, want %v", c.template, text, got, want)
				}
			}
		}
	}
}

// allows tells whether an answer with these tokens is one that the constraint allows.
func allows(t *testing.T, m *Model, c *Constraint, text string) bool {
	t.Helper()
	ids, err := m.tokenizer.Encode(text, tokenizer.Options{ParseSpecial: true})
	if err != nil {
		t.Fatal(err)
	}
	at, err := c.automaton.Start()
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if at.Accept(id) != nil {
			return false
		}
	}
	return at.Done()
}

func TestConstrainReplyRefusals(t *testing.T) {
	plain, err := Load("", Options{Template: "{{ messages }}", Context: 16})
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	m, err := Load("", Options{Threads: 1, Context: 16})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	bad := Tool{Name: "b", Parameters: json.RawMessage(`{"properties": {"x": {"type": "strin"}}}`)}
	strict := bad
	strict.Strict = true
	for _, c := range []struct {
		m    *Model
		r    Reply
		tool int
		want string
	}{
		{plain, Reply{Tools: []Tool{{Name: "f"}}, Required: true}, -1, "no way of calling tools"},
		{m, Reply{Tools: []Tool{{Name: "f"}, bad}, Required: true}, 1, `#/properties/x/type: "strin"`},
		{m, Reply{Tools: []Tool{strict}}, 0, `#/properties/x/type: "strin"`},
		{m, Reply{Content: Regex("(")}, -1, "grammar: "},
		{m, Reply{Content: Choices([]string{"a"}), Tools: []Tool{{Name: "f", Parameters: json.RawMessage("{")}}, Required: true}, -1, "unexpected end"},
	} {
		var wrong *LanguageError
		if _, err := c.m.ConstrainReply(t.Context(), "", c.r); !errors.As(err, &wrong) || wrong.Tool != c.tool || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v; it should be about tool %d and say %q", c.r, err, c.tool, c.want)
		}
	}
	if c, err := m.ConstrainReply(t.Context(), "", Reply{Tools: []Tool{bad}}); c != nil || err != nil {
		t.Errorf("a schema that is not to be enforced: %v, %v", c, err)
	}
}
