package schema

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/ridge-llm/ridge/engine/grammar/automaton"
	"github.com/ridge-llm/ridge/engine/grammar/grammartest"
)

// TestSuite runs JSON-Schema-Test-Suite, a folder of which SCHEMA_SUITE names (tests/draft2020-12): it says what share of its schemas
// is accepted, and fails for a value that the suite calls invalid and the automaton allows.
func TestSuite(t *testing.T) {
	dir := os.Getenv("SCHEMA_SUITE")
	if dir == "" {
		t.Skip("SCHEMA_SUITE names no folder of JSON-Schema-Test-Suite")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no *.json: %v", dir, err)
	}
	schemas, accepted, nothing, valid, allowed := 0, 0, 0, 0, 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var groups []suiteGroup
		if err := json.Unmarshal(text, &groups); err != nil {
			t.Fatal(err)
		}
		for _, g := range groups {
			schemas++
			name := filepath.Base(file) + ": " + g.Description
			a, err := g.compile()
			switch {
			case err != nil && strings.Contains(err.Error(), "no text at all"):
				nothing++
			case err != nil:
				t.Logf("refused: %s: %v", name, err)
				continue
			}
			accepted++
			if a != nil {
				g.write(t, name, a)
			}
			for _, c := range g.Tests {
				reads := a != nil && reads(a, c.Data)
				if c.Valid {
					valid++
				}
				switch {
				case reads && c.Valid:
					allowed++
				case reads:
					t.Errorf("%s: %s: %s is allowed", name, c.Description, c.Data)
				case c.Valid:
					t.Logf("left out: %s: %s: %s", name, c.Description, c.Data)
				}
			}
		}
	}
	t.Logf("%d of %d schemas are accepted (%.1f %%), %d of them as those of no text; %d of %d valid values are allowed (%.1f %%)", accepted, schemas,
		100*float64(accepted)/float64(schemas), nothing, allowed, valid, 100*float64(allowed)/float64(valid))
}

// suiteGroup is a schema of the suite with its values.
type suiteGroup struct {
	Description string
	Schema      json.RawMessage
	Tests       []struct {
		Description string
		Data        json.RawMessage
		Valid       bool
	}
}

func (g suiteGroup) compile() (*automaton.Automaton, error) {
	grammar, err := Parse(g.Schema, Options{Open: true})
	if err != nil {
		return nil, err
	}
	return automaton.Compile(grammar, grammartest.ByteVocabulary())
}

// write writes random texts, which the other implementation must find valid if it knows the schema.
func (g suiteGroup) write(t *testing.T, name string, a *automaton.Automaton) {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(g.Schema)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("schema.json", doc); err != nil {
		return
	}
	other, err := c.Compile("schema.json")
	if err != nil {
		return
	}
	m, err := a.Start()
	if err != nil {
		t.Fatal(err)
	}
	rng := grammartest.Rand(name)
	for range 20 {
		text, ok := grammartest.Write(t, m, grammartest.ByteTokens(), rng, 60)
		if !ok {
			continue
		}
		if err := isValid(t, other, text); err != nil {
			t.Errorf("%s: wrote %s: %v", name, text, err)
		}
	}
}

// reads reports whether a value is allowed, with the keys of its objects in any order.
func reads(a *automaton.Automaton, value json.RawMessage) bool {
	d := json.NewDecoder(strings.NewReader(string(value)))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return false
	}
	return slices.ContainsFunc(writings(v), func(text string) bool {
		m, err := a.Start()
		return err == nil && grammartest.Reads(m, text)
	})
}
