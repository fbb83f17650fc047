package ollama

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server/api"
)

// instruction is a line of a Modelfile, or several: PARAMETER temperature 0.7.
type instruction struct {
	line    int
	command string // in capitals
	args    string
}

// parseModelfile reads the instructions of a Modelfile. A value between """ and """ may have several lines; of one between " and " these are left out.
func parseModelfile(text string) (all []instruction, err error) {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSpace(lines[i])
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		x := instruction{line: i + 1, command: strings.ToUpper(word), args: strings.TrimSpace(rest)}
		if open := strings.Index(x.args, `"""`); open >= 0 {
			_, value, _ := strings.Cut(lines[i], word)
			_, value, _ = strings.Cut(value, `"""`) // with the spaces behind it
			value, _, closed := strings.Cut(value, `"""`)
			parts := []string{value}
			for !closed {
				if i++; i == len(lines) {
					return nil, api.Invalid("modelfile", `line %d of the Modelfile opens a text with """ that is not closed`, x.line)
				}
				value, _, closed = strings.Cut(lines[i], `"""`)
				parts = append(parts, value)
			}
			x.args = x.args[:open] + strings.Join(parts, "\n")
		}
		all = append(all, x)
	}
	return all, nil
}

// unquoted is a value without the quotation marks around it.
func unquoted(s string) string {
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		return s[1 : len(s)-1]
	}
	return s
}

// read takes what a Modelfile says into a request.
func (q *createRequest) read(text string) error {
	all, err := parseModelfile(text)
	if err != nil {
		return err
	}
	for _, x := range all {
		if err := q.take(x); err != nil {
			return err
		}
	}
	return nil
}

// take takes an instruction into the request.
func (q *createRequest) take(x instruction) error {
	bad := func(format string, args ...any) error {
		return api.Invalid("modelfile", "line %d of the Modelfile: %s", x.line, fmt.Sprintf(format, args...))
	}
	if x.args == "" {
		return bad("%s has no value", x.command)
	}
	switch x.command {
	case "FROM":
		q.From = unquoted(x.args)
	case "SYSTEM":
		q.System = unquoted(x.args)
	case "TEMPLATE":
		q.Template = unquoted(x.args)
	case "LICENSE":
		q.License = append(q.License, unquoted(x.args))
	case "ADAPTER":
		digest, ok := strings.CutPrefix(unquoted(x.args), "@")
		if !ok && q.keep != nil {
			files, err := q.keep(unquoted(x.args))
			if err != nil {
				return bad("%v", err)
			}
			q.Adapters = files
			return nil
		}
		if !ok {
			return bad("ADAPTER names %q; a file that was sent is wanted, by its digest as @sha256:…, or the field adapters", x.args)
		}
		q.Adapters = map[string]string{"adapter.gguf": digest}
	case "MESSAGE":
		role, content, _ := strings.Cut(x.args, " ")
		q.Messages = append(q.Messages, message{Role: strings.ToLower(role), Content: unquoted(strings.TrimSpace(content))})
	case "PARAMETER":
		name, value, ok := strings.Cut(x.args, " ")
		if !ok {
			return bad("PARAMETER %s has no value", name)
		}
		return q.parameter(strings.ToLower(name), unquoted(strings.TrimSpace(value)))
	case "REQUIRES": // a version of Ollama, whose instructions are all known
	default:
		return bad("%s is not an instruction here; FROM, PARAMETER, TEMPLATE, SYSTEM, ADAPTER, MESSAGE and LICENSE are", x.command)
	}
	return nil
}

// parameter notes a parameter as text, which is a number or true or false where it looks like one. stop can be given several times.
func (q *createRequest) parameter(name, value string) error {
	if q.Parameters == nil {
		q.Parameters = map[string]json.RawMessage{}
	}
	if name == "stop" {
		var all []string
		if raw := q.Parameters[name]; raw != nil && json.Unmarshal(raw, &all) != nil {
			return api.Invalid("parameters.stop", "stop should be an array of strings")
		}
		if len(all) >= ridge.MaxStops {
			return api.Invalid("parameters.stop", "the Modelfile has more than %d parameters stop, the most that are looked for", ridge.MaxStops)
		}
		text, err := json.Marshal(append(all, value))
		q.Parameters[name] = text
		return err
	}
	if _, err := strconv.ParseFloat(value, 64); err != nil && value != "true" && value != "false" || !json.Valid([]byte(value)) {
		return api.Invalid("parameters."+name, "the parameter %s is %q; a number, true or false is wanted", name, value)
	}
	q.Parameters[name] = json.RawMessage(value)
	return nil
}
