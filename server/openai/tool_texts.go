package openai

import (
	"encoding/json"
	"slices"

	"github.com/ridge-llm/ridge"
)

// textParameters returns which parameters of tools are strings only, by their schemas: models that write calls
// without quotes leave that open.
func textParameters(tools []ridge.Tool) func(tool, parameter string) bool {
	known := map[[2]string]bool{}
	for _, t := range tools {
		var schema struct {
			Properties map[string]struct {
				Type any   `json:"type"`
				Enum []any `json:"enum"`
			} `json:"properties"`
		}
		if json.Unmarshal(t.Parameters, &schema) != nil {
			continue // unusual, and not this function's to judge
		}
		for name, p := range schema.Properties {
			texts := len(p.Enum) > 0 && !slices.ContainsFunc(p.Enum, func(v any) bool { _, is := v.(string); return !is })
			known[[2]string{t.Name, name}] = p.Type == "string" || p.Type == nil && texts
		}
	}
	return func(tool, parameter string) bool { return known[[2]string{tool, parameter}] }
}
