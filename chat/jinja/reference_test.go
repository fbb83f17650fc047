package jinja

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"
)

const referenceDir = "../../../shared/reference/templates"

// referenceNow is when the reference was made, for strftime_now.
var referenceNow = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

type outcome struct {
	OK  bool   `json:"ok"`
	Out string `json:"out"`
	Err string `json:"err"`
}

func readJSON(t testing.TB, path string, into any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestReference renders real chat templates and demands upstream's text, or an error where upstream raises.
func TestReference(t *testing.T) {
	if _, err := os.Stat(referenceDir); err != nil {
		t.Skip("the reference templates are not here; golden_test.go covers the language without them")
	}
	var expected map[string]map[string]outcome
	readJSON(t, filepath.Join(referenceDir, "expected.json"), &expected)
	var contexts map[string]json.RawMessage
	readJSON(t, filepath.Join(referenceDir, "conversations.json"), &contexts)
	for file, byContext := range expected {
		source, err := os.ReadFile(filepath.Join(referenceDir, file))
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range byContext {
			got, err := renderJSON(file, string(source), contexts[name])
			switch {
			case want.OK && err != nil:
				t.Errorf("%s, %s: %v", file, name, err)
			case !want.OK && err == nil:
				t.Errorf("%s, %s: rendered, but upstream raises %s", file, name, want.Err)
			case want.OK && got != want.Out:
				t.Errorf("%s, %s: got\n%q\nwant\n%q", file, name, got, want.Out)
			}
		}
	}
}

func renderJSON(name, source string, vars []byte) (string, error) {
	tmpl, err := Parse(name, source)
	if err != nil {
		return "", err
	}
	v, err := DecodeJSON(vars)
	if err != nil {
		return "", err
	}
	return tmpl.Render(context.Background(), v.(*Map), Options{Now: referenceNow})
}
