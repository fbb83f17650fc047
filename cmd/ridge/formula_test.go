package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestFormula: the commands that Homebrew's formula runs are there with their flags, and its licence is the repository's.
func TestFormula(t *testing.T) {
	text, err := os.ReadFile("../../packaging/ridge.rb")
	if err != nil {
		t.Fatal(err)
	}
	all := root()
	all.InitDefaultCompletionCmd()
	commands := regexp.MustCompile(`bin\}?/"?ridge"?(.*)`).FindAllStringSubmatch(string(text), -1)
	seen := map[string]bool{}
	for _, c := range commands {
		words := regexp.MustCompile(`[\w-]+`).FindAllString(c[1], -1)
		cmd, _, err := all.Find(words[:1])
		if err != nil || cmd.Name() != words[0] {
			t.Errorf("%q: there is no command %s: %v", c[0], words[0], err)
			continue
		}
		seen[words[0]] = true
		for _, w := range words[1:] {
			if name, ok := strings.CutPrefix(w, "--"); ok && cmd.Flags().Lookup(name) == nil {
				t.Errorf("%q: %s has no flag --%s", c[0], words[0], name)
			}
		}
	}
	for _, name := range []string{"completion", "man", "serve", "version", "run"} {
		if !seen[name] {
			t.Errorf("the formula does not run %s; found %q", name, commands)
		}
	}
	licence, err := os.ReadFile("../../LICENSE")
	if err != nil || !strings.Contains(string(licence), "Apache License") || !strings.Contains(string(text), `license "Apache-2.0"`) {
		t.Errorf("the licences differ: %v", err)
	}
}
