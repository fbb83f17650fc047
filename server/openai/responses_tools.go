package openai

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ridge-llm/ridge/server/api"
)

// leftOutHeader is the response header that names the tools that were not shown to the model.
const leftOutHeader = "X-Ridge-Left-Out"

// spacedTool is a tool of a namespace.
type spacedTool struct{ space, name string }

// shown is the name by which the model knows a tool: that of its namespace comes first, if it has one.
func (t spacedTool) shown() string {
	if t.space == "" {
		return t.name
	}
	return t.space + "__" + t.name
}

// offer converts the tools, which are flat here or in namespaces, to those of chat completions. A search of the web, which agents offer with every request and no model here can do, is left out where
// the model may choose what it calls: it would answer without it there, too. The header of the answer says so.
func (q *responsesRequest) offer(c *ChatRequest) error {
	c.Fields, c.Parallel, c.ToolChoice = ToolFieldNames{".name", ".parameters"}, q.Parallel, q.ToolChoice
	flat := map[string]string{} // where functions without a namespace are, by name
	for i, raw := range q.Tools {
		var t struct {
			Type  string            `json:"type"`
			Name  string            `json:"name"`
			Tools []json.RawMessage `json:"tools"`
		}
		at := fmt.Sprintf("tools[%d]", i)
		known := json.Unmarshal(raw, &t) == nil
		switch {
		case known && t.Type == "function":
			flat[t.Name] = at
			c.addFlat(at, raw)
		case known && t.Type == "namespace":
			if err := q.offerSpace(c, at, t.Name, t.Tools); err != nil {
				return err
			}
		case known && strings.HasPrefix(t.Type, "web_search") && !q.mustCall():
			q.leftOut = append(q.leftOut, at+" (web_search)")
		default:
			return api.Invalid(at+".type", "%s.type is %q; only function, and namespace with functions, are supported", at, t.Type)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(q.spaces)) {
		if at, taken := flat[name]; taken {
			return sameName(at, name, q.spaces[name])
		}
	}
	var named struct {
		Type  string `json:"type"`
		Name  string `json:"name"`
		Space string `json:"namespace"`
	}
	if json.Unmarshal(q.ToolChoice, &named) == nil && named.Type == "function" {
		c.ToolChoice = fmt.Appendf(nil, `{"type": "function", "function": {"name": %s}}`, api.Quoted(spacedTool{named.Space, named.Name}.shown()))
	}
	return nil
}

// mustCall reports whether tool_choice is more than that the model may call tools, or may not.
func (q *responsesRequest) mustCall() bool {
	var mode string
	return api.Present(q.ToolChoice) && (json.Unmarshal(q.ToolChoice, &mode) != nil || mode != "auto" && mode != "none")
}

// offerSpace adds the functions of a namespace, with its name before theirs.
func (q *responsesRequest) offerSpace(c *ChatRequest, at, space string, tools []json.RawMessage) error {
	if space == "" {
		return api.Invalid(at+".name", "%s.name is missing", at)
	}
	for j, raw := range tools {
		at := fmt.Sprintf("%s.tools[%d]", at, j)
		var t struct{ Type, Name string }
		var all map[string]json.RawMessage
		switch {
		case json.Unmarshal(raw, &t) != nil || json.Unmarshal(raw, &all) != nil || t.Type != "function":
			return api.Invalid(at+".type", "%s.type is %q; only function is supported", at, t.Type)
		case t.Name == "":
			return api.Invalid(at+".name", "%s.name is missing", at)
		}
		tool := spacedTool{space, t.Name}
		all["name"] = api.Quoted(tool.shown())
		flat, err := json.Marshal(all)
		if err != nil {
			return err
		}
		if q.spaces == nil {
			q.spaces = map[string]spacedTool{}
		}
		if other, taken := q.spaces[tool.shown()]; taken {
			return sameName(at, tool.shown(), other)
		}
		q.spaces[tool.shown()] = tool
		c.addFlat(at, flat)
	}
	return nil
}

// sameName refuses a tool that the model would know by the name of another, which is of a namespace: its calls could be of either.
func sameName(at, shown string, other spacedTool) error {
	return api.Invalid(at+".name", "%s is shown to the model as %q, and so is the tool %q of the namespace %q; rename one of them", at, shown, other.name, other.space)
}

// addFlat adds a function as Responses has it.
func (c *ChatRequest) addFlat(at string, raw json.RawMessage) {
	c.At = append(c.At, at)
	c.Tools = append(c.Tools, fmt.Appendf(nil, `{"type": "function", "function": %s}`, raw))
}

// called is the tool that the model means by a name.
func (q *responsesRequest) called(name string) spacedTool {
	if t, ok := q.spaces[name]; ok {
		return t
	}
	return spacedTool{name: name}
}
