package server

import (
	"encoding/json"
	"fmt"
)

// offer puts Anthropic's tools and tool_choice into OpenAI's words.
func (q *messagesRequest) offer(c *chatRequest) error {
	c.fields = toolFields{"tools[%d].name", "tools[%d].input_schema"}
	for i, t := range q.Tools {
		switch {
		case t.Type != "" && t.Type != "custom":
			return bad("tools", "tools[%d].type is %q; only custom tools are supported", i, t.Type)
		case !present(t.InputSchema):
			return bad("tools", "tools[%d].input_schema is missing", i)
		}
		raw, err := json.Marshal(map[string]any{"type": "function", "function": map[string]any{
			"name": t.Name, "description": t.Description, "parameters": t.InputSchema, "strict": t.Strict}})
		if err != nil {
			return err
		}
		c.Tools = append(c.Tools, raw)
	}
	if q.ToolChoice == nil {
		return nil
	}
	parallel := !q.ToolChoice.Single
	c.Parallel = &parallel
	switch q.ToolChoice.Type {
	case "auto", "none":
		c.ToolChoice = quoted(q.ToolChoice.Type)
	case "any":
		c.ToolChoice = quoted("required")
	case "tool":
		c.ToolChoice = fmt.Appendf(nil, `{"type": "function", "function": {"name": %s}}`, quoted(q.ToolChoice.Name))
	default:
		return bad("tool_choice", "tool_choice.type is %q; auto, any, tool and none are possible", q.ToolChoice.Type)
	}
	return nil
}

// format reads output_config.format, or as older clients have it output_format: {"type": "json_schema", "schema": …}.
func (q *messagesRequest) format(c *chatRequest) error {
	raw, field := q.OutputConfig.Format, "output_config.format"
	if !present(raw) {
		raw, field = q.OutputFormat, "output_format"
	}
	if !present(raw) {
		return nil
	}
	var f struct {
		Type   string          `json:"type"`
		Schema json.RawMessage `json:"schema"`
	}
	if json.Unmarshal(raw, &f) != nil || f.Type != "json_schema" || !present(f.Schema) {
		return bad(field, `%s should be {"type": "json_schema", "schema": …}`, field)
	}
	c.GuidedJSON, c.jsonField = f.Schema, field
	return nil
}
