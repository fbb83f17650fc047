package openai

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/serving"
)

// StructuredFields are the fields by which a request can constrain its answer.
type StructuredFields struct {
	ResponseFormat json.RawMessage `json:"response_format"` // OpenAI's

	GuidedJSON    json.RawMessage `json:"guided_json"` // vLLM's older: a schema, or the text of one
	GuidedRegex   string          `json:"guided_regex"`
	GuidedGrammar string          `json:"guided_grammar"` // GBNF
	GuidedChoice  []string        `json:"guided_choice"`

	StructuredOutputs json.RawMessage `json:"structured_outputs"` // vLLM's newer: an object with one of the above

	Grammar    string          `json:"grammar"`     // llama.cpp's: GBNF
	JSONSchema json.RawMessage `json:"json_schema"` // llama.cpp's and SGLang's: a schema, or the text of one
	Regex      string          `json:"regex"`       // SGLang's
	EBNF       string          `json:"ebnf"`        // SGLang's, in the same notation as GBNF

	JsonField string // what the API calls GuidedJSON; "": that
	Loose     bool   // what of GuidedJSON cannot be enforced is left to the model
}

// structured is one way that a request took.
type structured struct {
	field    string
	language ridge.Language
}

// language is the constraint of the answer, and the field that names it.
func (q *StructuredFields) language() (structured, error) {
	var all []structured
	add := func(field string, given bool, l func() (ridge.Language, error)) error {
		if !given {
			return nil
		}
		language, err := l()
		if err == nil && !language.Any() {
			all = append(all, structured{field, language})
		}
		return err
	}
	jsonField := cmp.Or(q.JsonField, "guided_json")
	say := func(l ridge.Language) func() (ridge.Language, error) {
		return func() (ridge.Language, error) { return l, nil }
	}
	for _, err := range []error{
		add("response_format", api.Present(q.ResponseFormat), func() (ridge.Language, error) { return responseFormat(q.ResponseFormat) }),
		add(jsonField, api.Present(q.GuidedJSON), func() (ridge.Language, error) {
			l, err := schemaOf(jsonField, q.GuidedJSON)
			if err == nil && q.Loose {
				l = ridge.LooseJSONSchema(q.GuidedJSON)
			}
			return l, err
		}),
		add("guided_regex", q.GuidedRegex != "", say(ridge.Regex(q.GuidedRegex))),
		add("guided_grammar", q.GuidedGrammar != "", say(ridge.GBNF(q.GuidedGrammar))),
		add("guided_choice", len(q.GuidedChoice) > 0, say(ridge.Choices(q.GuidedChoice))),
		add("grammar", q.Grammar != "", say(ridge.GBNF(q.Grammar))),
		add("json_schema", api.Present(q.JSONSchema), func() (ridge.Language, error) { return schemaOf("json_schema", q.JSONSchema) }),
		add("regex", q.Regex != "", say(ridge.Regex(q.Regex))),
		add("ebnf", q.EBNF != "", say(ridge.GBNF(q.EBNF))),
		add("structured_outputs", api.Present(q.StructuredOutputs), func() (ridge.Language, error) { return structuredOutputs(q.StructuredOutputs) }),
	} {
		if err != nil {
			return structured{}, err
		}
	}
	switch len(all) {
	case 0:
		return structured{}, nil
	case 1:
		return all[0], nil
	}
	return structured{}, api.Invalid(all[1].field, "%s and %s are both given; only one of them can constrain an answer", all[0].field, all[1].field)
}

// responseFormat reads OpenAI's response_format; any text for {"type": "text"}.
func responseFormat(raw json.RawMessage) (none ridge.Language, err error) {
	var f struct {
		Type       string          `json:"type"`
		Schema     json.RawMessage `json:"schema"` // of json_object, as llama.cpp has it
		JSONSchema *struct {
			Schema json.RawMessage `json:"schema"`
			Strict *bool           `json:"strict"`
		} `json:"json_schema"`
	}
	if json.Unmarshal(raw, &f) != nil {
		return none, api.Invalid("response_format", `response_format should be {"type": "text"}, {"type": "json_object"} or {"type": "json_schema", "json_schema": {"name": …, "schema": …}}`)
	}
	switch {
	case f.Type == "text":
		return none, nil
	case f.Type == "json_object" && api.Present(f.Schema):
		return schemaOf("response_format.schema", f.Schema)
	case f.Type == "json_object":
		return ridge.JSONObject(), nil
	case f.Type != "json_schema":
		return none, api.Invalid("response_format.type", "response_format.type is %q; text, json_object and json_schema are possible", f.Type)
	case f.JSONSchema == nil || !api.Present(f.JSONSchema.Schema):
		return none, api.Invalid("response_format.json_schema", "response_format.json_schema.schema is missing")
	}
	l, err := schemaOf("response_format.json_schema.schema", f.JSONSchema.Schema)
	if err != nil || f.JSONSchema.Strict != nil && *f.JSONSchema.Strict {
		return l, err
	}
	return ridge.LooseJSONSchema(f.JSONSchema.Schema), nil
}

// schemaOf is the language of a schema: JSON, or a string with its text.
func schemaOf(field string, raw json.RawMessage) (ridge.Language, error) {
	if text := ""; json.Unmarshal(raw, &text) == nil {
		if raw = json.RawMessage(text); !json.Valid(raw) {
			return ridge.Language{}, api.Invalid(field, "%s is a string and not the text of a JSON schema", field)
		}
	}
	return ridge.JSONSchema(raw), nil
}

// structuredOutputs reads vLLM's structured_outputs.
func structuredOutputs(raw json.RawMessage) (none ridge.Language, err error) {
	var given map[string]json.RawMessage
	if json.Unmarshal(raw, &given) != nil {
		return none, api.Invalid("structured_outputs", "structured_outputs should be an object")
	}
	var languages []ridge.Language
	for name, value := range given {
		if !api.Present(value) || string(value) == "false" {
			continue
		}
		field := "structured_outputs." + name
		var text string
		var list []string
		isText, isList := json.Unmarshal(value, &text) == nil, json.Unmarshal(value, &list) == nil
		switch {
		case name == "json":
			l, err := schemaOf(field, value)
			if err != nil {
				return none, err
			}
			languages = append(languages, l)
		case name == "json_object" && string(value) == "true":
			languages = append(languages, ridge.JSONObject())
		case name == "regex" && isText:
			languages = append(languages, ridge.Regex(text))
		case name == "grammar" && isText:
			languages = append(languages, ridge.GBNF(text))
		case name == "choice" && isList:
			languages = append(languages, ridge.Choices(list))
		case slices.Contains([]string{"disable_any_whitespace", "disable_fallback", "disable_additional_properties"}, name):
			// That is how it is done anyway.
		case slices.Contains([]string{"json_object", "regex", "grammar", "choice"}, name):
			return none, api.Invalid(field, "%s is %.100s, which has the wrong type", field, value)
		default:
			return none, api.Invalid(field, "%s is not supported; json, json_object, regex, grammar and choice are", field)
		}
	}
	if len(languages) != 1 {
		return none, api.Invalid("structured_outputs", "structured_outputs has %d constraints; it should have one", len(languages))
	}
	return languages[0], nil
}

// constraint compiles the constraint of a completion.
func (g *structured) constraint(ctx context.Context, s *serving.Service) (*ridge.Constraint, error) {
	c, err := s.Constrain(ctx, g.language)
	var wrong *ridge.LanguageError
	if errors.As(err, &wrong) {
		return nil, api.Invalid(g.field, "%s: %s", g.field, api.Sentence(err))
	}
	return c, err
}
