package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/serving"
)

// ToolFieldNames is where an API has the parts of a tool, for errors that name them.
type ToolFieldNames struct{ Name, Parameters string }

// openAI is used where a request does not say otherwise.
var openAI = ToolFieldNames{".function.name", ".function.parameters"}

const maxTools = 128 // OpenAI's limit

var toolName = regexp.MustCompile(`^[A-Za-z0-9_.:/-]{1,128}$`)

// ToolFields is the tools of a request and what may become of them.
type ToolFields struct {
	Tools      []json.RawMessage `json:"tools"`
	ToolChoice json.RawMessage   `json:"tool_choice"`
	Parallel   *bool             `json:"parallel_tool_calls"`

	Fields   ToolFieldNames `json:"-"`
	At       []string       `json:"-"` // where each of Tools is, for errors; nil: as here
	tools    []ridge.Tool   // that may be called
	places   []int          // of them in Tools
	required bool
}

// read checks the tools and determines which of them may or must be called.
func (o *ToolFields) read(m *ridge.Model) error {
	if o.Fields == (ToolFieldNames{}) {
		o.Fields = openAI
	}
	if len(o.Tools) > maxTools {
		return api.Invalid("tools", "there are %d tools; %d at most are possible", len(o.Tools), maxTools)
	}
	for i, raw := range o.Tools {
		if err := o.add(i, raw); err != nil {
			return err
		}
	}
	if err := o.choose(); err != nil {
		return err
	}
	if len(o.tools) > 0 && !m.CanCallTools() {
		return api.Invalid("tools", "the model's chat template does not show tools to the model, so it cannot call them")
	}
	return nil
}

// at is where tool i is.
func (o *ToolFields) at(i int) string {
	if i < len(o.At) {
		return o.At[i]
	}
	return fmt.Sprintf("tools[%d]", i)
}

// add reads a tool: {"type": "function", "function": {"name": …, "parameters": …, "strict": …}}.
func (o *ToolFields) add(i int, raw json.RawMessage) error {
	var t struct {
		Type     string `json:"type"`
		Function struct {
			Name       string          `json:"name"`
			Parameters json.RawMessage `json:"parameters"`
			Strict     *bool           `json:"strict"`
		} `json:"function"`
	}
	at := o.at(i)
	name, parameters := at+o.Fields.Name, at+o.Fields.Parameters
	if json.Unmarshal(raw, &t) != nil {
		return api.Invalid(at, `%s should be {"type": "function", "function": {"name": …, "parameters": …}}`, at)
	}
	f := &t.Function
	switch {
	case t.Type != "function":
		return api.Invalid(at+".type", "%s.type is %q; only function is supported", at, t.Type)
	case f.Name == "":
		return api.Invalid(name, "%s is missing", name)
	case !toolName.MatchString(f.Name):
		return api.Invalid(name, "%s is %.200q; it should be at most 128 letters, digits and characters of _-.:/", name, f.Name)
	case slices.ContainsFunc(o.tools, func(other ridge.Tool) bool { return other.Name == f.Name }):
		return api.Invalid(name, "%s is %q, which is also the name of another tool", name, f.Name)
	}
	if !api.Present(f.Parameters) {
		f.Parameters = nil
	} else if wrong := notParameters(f.Parameters); wrong != "" {
		return api.Invalid(parameters, "%s should be a JSON schema of an object: %s", parameters, wrong)
	}
	o.tools = append(o.tools, ridge.Tool{Name: f.Name, Parameters: f.Parameters, Strict: f.Strict != nil && *f.Strict})
	o.places = append(o.places, i)
	return nil
}

// notParameters says why something is not a schema of arguments; "" if it may be one.
func notParameters(raw json.RawMessage) string {
	var schema map[string]json.RawMessage
	if json.Unmarshal(raw, &schema) != nil {
		return "it is not a JSON object"
	}
	kind := ""
	if json.Unmarshal(schema["type"], &kind) != nil && schema["type"] != nil || kind != "" && kind != "object" {
		return fmt.Sprintf("its type is %.100s instead of object", schema["type"])
	}
	var properties map[string]json.RawMessage
	if schema["properties"] != nil && json.Unmarshal(schema["properties"], &properties) != nil {
		return "its properties are not a JSON object"
	}
	var required []string
	if schema["required"] != nil && json.Unmarshal(schema["required"], &required) != nil {
		return "its required is not a list of names"
	}
	return ""
}

// choose applies tool_choice.
func (o *ToolFields) choose() error {
	var mode string
	if !api.Present(o.ToolChoice) {
		return nil
	}
	if json.Unmarshal(o.ToolChoice, &mode) == nil {
		return o.chooseMode(mode)
	}
	type function struct {
		Type     string `json:"type"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	var named struct {
		function
		Allowed struct {
			Mode  string     `json:"mode"`
			Tools []function `json:"tools"`
		} `json:"allowed_tools"`
	}
	if json.Unmarshal(o.ToolChoice, &named) != nil {
		return api.Invalid("tool_choice", `tool_choice should be auto, none, required or {"type": "function", "function": {"name": …}}`)
	}
	switch named.Type {
	case "function":
		return o.only("tool_choice.function.name", named.Function.Name)
	case "allowed_tools":
		var names []string
		for _, f := range named.Allowed.Tools {
			names = append(names, f.Function.Name)
		}
		if err := o.only("tool_choice.allowed_tools", names...); err != nil {
			return err
		}
		o.required = false
		return o.chooseMode(named.Allowed.Mode)
	}
	return api.Invalid("tool_choice.type", "tool_choice.type is %q; function and allowed_tools are possible", named.Type)
}

func (o *ToolFields) chooseMode(mode string) error {
	switch mode {
	case "auto":
	case "none":
		o.Tools, o.tools, o.places = nil, nil, nil
	case "required":
		if o.required = true; len(o.tools) == 0 {
			return api.Invalid("tool_choice", "tool_choice is required, but there are no tools")
		}
	default:
		return api.Invalid("tool_choice", "tool_choice is %q; auto, none, required or the name of a function are possible", mode)
	}
	return nil
}

// only leaves the named tools, one of which must be called.
func (o *ToolFields) only(field string, names ...string) error {
	var tools []ridge.Tool
	var places []int
	for _, name := range names {
		i := slices.IndexFunc(o.tools, func(t ridge.Tool) bool { return t.Name == name })
		if i < 0 {
			return api.Invalid(field, "%s is %.200q, but no tool here has that name", field, name)
		}
		tools, places = append(tools, o.tools[i]), append(places, o.places[i])
	}
	o.tools, o.places, o.required = tools, places, true
	return nil
}

// names are those of the tools that may be called.
func (o *ToolFields) names() (all []string) {
	for _, t := range o.tools {
		all = append(all, t.Name)
	}
	return all
}

// constraint compiles the constraint of the answer to a prompt.
func (o *ToolFields) constraint(ctx context.Context, s *serving.Service, prompt string, g structured) (*ridge.Constraint, error) {
	c, err := s.ConstrainReply(ctx, prompt, ridge.Reply{Content: g.language, Tools: o.tools, Required: o.required, Single: o.Parallel != nil && !*o.Parallel})
	var wrong *ridge.LanguageError
	if !errors.As(err, &wrong) {
		return c, err
	}
	field := g.field
	if field == "" {
		field = "tools"
	}
	if wrong.Tool >= 0 {
		field = o.at(o.places[wrong.Tool]) + o.Fields.Parameters
	}
	return nil, api.Invalid(field, "%s: %s", field, api.Sentence(wrong.Err))
}
