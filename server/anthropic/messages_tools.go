package anthropic

import (
	"encoding/json"
	"fmt"

	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/openai"
)

// offer converts Anthropic's tools and tool_choice to OpenAI's form.
func (q *messagesRequest) offer(c *openai.ChatRequest) error {
	c.Fields = openai.ToolFieldNames{Name: ".name", Parameters: ".input_schema"}
	for i, t := range q.Tools {
		switch {
		case t.Type != "" && t.Type != "custom":
			return api.Invalid("tools", "tools[%d].type is %q; only custom tools are supported", i, t.Type)
		case !api.Present(t.InputSchema):
			return api.Invalid("tools", "tools[%d].input_schema is missing", i)
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
		c.ToolChoice = api.Quoted(q.ToolChoice.Type)
	case "any":
		c.ToolChoice = api.Quoted("required")
	case "tool":
		c.ToolChoice = fmt.Appendf(nil, `{"type": "function", "function": {"name": %s}}`, api.Quoted(q.ToolChoice.Name))
	default:
		return api.Invalid("tool_choice", "tool_choice.type is %q; auto, any, tool and none are possible", q.ToolChoice.Type)
	}
	return nil
}

// format reads output_config.format, or as older clients have it output_format: {"type": "json_schema", "schema": …}.
func (q *messagesRequest) format(c *openai.ChatRequest) error {
	raw, field := q.OutputConfig.Format, "output_config.format"
	if !api.Present(raw) {
		raw, field = q.OutputFormat, "output_format"
	}
	if !api.Present(raw) {
		return nil
	}
	var f struct {
		Type   string          `json:"type"`
		Schema json.RawMessage `json:"schema"`
	}
	if json.Unmarshal(raw, &f) != nil || f.Type != "json_schema" || !api.Present(f.Schema) {
		return api.Invalid(field, `%s should be {"type": "json_schema", "schema": …}`, field)
	}
	c.GuidedJSON, c.JsonField = f.Schema, field
	return nil
}
