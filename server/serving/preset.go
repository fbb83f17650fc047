package serving

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Preset is what a model that was created of another has of its own.
type Preset struct {
	Template   string // of chats, in Jinja; "": that of the model
	System     string // of conversations that begin with no system message
	Messages   []PresetMessage
	Parameters map[string]json.RawMessage // for requests that do not say otherwise, by Ollama's names
}

// PresetMessage is a message that conversations begin with.
type PresetMessage struct{ Role, Content string }

// Context is the parameter num_ctx; 0: there is none.
func (p *Preset) Context() (n int) {
	_ = json.Unmarshal(p.Parameters["num_ctx"], &n) // it was checked when the model was created
	return n
}

// ParameterLines are the parameters as Ollama shows them, one a line.
func (p *Preset) ParameterLines() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(p.Parameters)) {
		var list []json.RawMessage
		if json.Unmarshal(p.Parameters[name], &list) != nil {
			list = []json.RawMessage{p.Parameters[name]}
		}
		for _, value := range list {
			fmt.Fprintf(&b, "%-30s %s\n", name, value)
		}
	}
	return b.String()
}

// Modelfile is the preset as a Modelfile of a model.
func (p *Preset) Modelfile(from string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "FROM %s\n", from)
	if p.Template != "" {
		fmt.Fprintf(&b, "TEMPLATE \"\"\"%s\"\"\"\n", p.Template)
	}
	if p.System != "" {
		fmt.Fprintf(&b, "SYSTEM \"\"\"%s\"\"\"\n", p.System)
	}
	for line := range strings.Lines(p.ParameterLines()) {
		name, value, _ := strings.Cut(line, " ")
		fmt.Fprintf(&b, "PARAMETER %s %s\n", name, strings.TrimSpace(value))
	}
	for _, m := range p.Messages {
		fmt.Fprintf(&b, "MESSAGE %s \"\"\"%s\"\"\"\n", m.Role, m.Content)
	}
	return b.String()
}
