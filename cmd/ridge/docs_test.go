package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A use of a command in a document: in backquotes, or on an indented line of its own, up to a comment or the next command.
var (
	use   = regexp.MustCompile("(?m)(?:`|^    |; )ridge ((?:[^`\n#|;]|\\\\\n)*)")
	names = regexp.MustCompile(`^[a-z]+( [a-z]+)?`)
	flag  = regexp.MustCompile(`(?:^|[ (])--([a-z][a-z0-9-]*)`)
)

// TestDocs holds the documents to the program: the commands and flags that they show exist, and the README shows every
// command.
func TestDocs(t *testing.T) {
	const readme = "../../README.md"
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(files) < 3 {
		t.Fatalf("documents: %q, %v", files, err)
	}
	shown := map[string]bool{}
	for _, file := range append(files, readme, "../../ARCHITECTURE.md", "../../bench/README.md", "../../bench/h200.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range use.FindAllStringSubmatch(string(text), -1) {
			cmd, _, err := root().Find(strings.Fields(names.FindString(m[1])))
			if err != nil || !cmd.HasParent() {
				t.Errorf("%s: there is no command as in %q", file, m[0])
				continue
			}
			for c := cmd; c.HasParent(); c = c.Parent() {
				shown[c.Name()] = shown[c.Name()] || file == readme
			}
			for _, o := range flag.FindAllStringSubmatch(m[1], -1) {
				if cmd.Flags().Lookup(o[1]) == nil {
					t.Errorf("%s: %s has no --%s, as in %q", file, cmd.CommandPath(), o[1], m[0])
				}
			}
		}
	}
	for _, cmd := range root().Commands() {
		if !shown[cmd.Name()] {
			t.Errorf("README.md does not show ridge %s", cmd.Name())
		}
	}
}
