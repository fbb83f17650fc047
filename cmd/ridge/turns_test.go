package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/chat"
)

// TestTurns: what was said is taken back, kept in a file and read again.
func TestTurns(t *testing.T) {
	m, err := ridge.Load("", ridge.Options{Context: 64})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	said := []chat.Message{{Role: "user", Content: "one"}, {Role: "assistant", Content: "two"}, {Role: "user", Content: "three"}, {Role: "assistant", Content: "four"}}
	s := &session{model: m, system: "be brief", messages: slices.Clone(said)}
	file := filepath.Join(t.TempDir(), "talk.json")
	if err := s.save(file); err != nil {
		t.Fatal(err)
	}
	if err := s.save(file); err == nil {
		t.Error("a file was written over though nobody confirmed it")
	}
	var b bytes.Buffer
	if err := s.copyAnswer(&b); err != nil || b.String() != "\x1b]52;c;Zm91cg==\a" {
		t.Errorf("copied %q, %v", b.String(), err)
	}
	if err := s.undo(); err != nil || len(s.messages) != 2 {
		t.Errorf("%d messages are left, %v", len(s.messages), err)
	}
	other := &session{model: m}
	if err := other.load(file); err != nil || len(other.messages) != 4 || other.messages[3].Content != "four" || other.system != "be brief" || other.last != "three" {
		t.Errorf("loaded %+v, %v", other, err)
	}
	for _, text := range []string{"no JSON", `{"messages": [{"role": "assistant", "content": "x"}]}`, `{"messages": [{"role": "user", "content": "x"}]}`} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := other.load(file); err == nil || len(other.messages) != 4 {
			t.Errorf("%s was loaded", text)
		}
	}
	empty := &session{model: m}
	for _, f := range []func() error{empty.undo, empty.retry, func() error { return empty.copyAnswer(&b) }, func() error { return empty.save("") }} {
		if f() == nil {
			t.Error("something was done with an empty conversation")
		}
	}
}

func TestComplete(t *testing.T) {
	h := &history{lines: []string{"tell me of foxes", "a fox", "other"}}
	c := &completion{history: h}
	for _, x := range []struct {
		line string
		key  rune
		want string
		ok   bool
	}{
		{"/und", tab, "/undo ", true}, {"/se", tab, "/set ", true}, {"/s", tab, "", false}, {"/cl", tab, "/clear ", true}, {"/zz", tab, "", false}, {"hello", tab, "", false}, {"/model gpt-oss:1", tab, "/model gpt-oss:120b ", true}, {"/model gpt", tab, "/model gpt-oss:", true}, {"/model zz", tab, "", false},
		{"fox", ctrlR, "a fox", true}, {"a fox", ctrlR, "tell me of foxes", true}, {"tell me of foxes", ctrlR, "tell me of foxes", true}, {"nothing", ctrlR, "nothing", true}, {"x", 'y', "", false},
	} {
		if got, pos, ok := c.complete(x.line, len(x.line), x.key); ok != x.ok || got != x.want || ok && pos != len(got) {
			t.Errorf("%q, key %d: %q, %d, %v; want %q, %v", x.line, x.key, got, pos, ok, x.want, x.ok)
		}
	}
}
