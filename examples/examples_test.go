package examples_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestExamples compiles every program of this folder and runs it with the built-in model. What a model says may change; what a program has to show may not.
func TestExamples(t *testing.T) {
	if testing.Short() {
		t.Skip("six programs are linked")
	}
	files := t.TempDir()
	for name, text := range map[string]string{"fox.txt": "Pip the fox lives in the old oak.\n", "pages.txt": "A page is 16 tokens of cache.\n"} {
		if err := os.WriteFile(filepath.Join(files, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tests := map[string]struct {
		arguments []string
		input     string
		output    string // regular expression for all of it
	}{
		"generate":   {[]string{"-n", "8"}, "", `^Once upon a time\S* .+\n$`},
		"chat":       {nil, "Who are you?\nWhat is a KV cache?\n", `^[^\n]*Ridge[^\n]*\n[\s\S]*[Cc]ache`},
		"structured": {nil, "", `^"[^\n]{1,60}", born in [12]\d{3}, works in (mathematics|physics|computing|other)\n$`},
		"tools":      {[]string{"What is 12 plus 30?"}, "", `^add\(\{"a": ?12, ?"b": ?30\}\) = 42\n.+\n$`},
		"rag":        {nil, "", `^0\.\d{3} The KV cache stores the keys and values of earlier tokens\.\n-?0\.\d{3} .+\n[\s\S]*cache`},
		"agent":      {[]string{"-dir", files}, "", `^thought: [\s\S]*read: (fox|pages)\.txt\nthought: [\s\S]*answer: [\s\S]+\n$`},
	}
	programs := compile(t)
	entries, err := os.ReadDir(programs)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != len(tests) {
		t.Errorf("there are %d programs, and tests of %d", len(entries), len(tests))
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			c := exec.CommandContext(ctx, filepath.Join(programs, name), test.arguments...)
			var complaints strings.Builder
			c.Stdin, c.Stderr = strings.NewReader(test.input), &complaints
			out, err := c.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, complaints.String())
			}
			if !regexp.MustCompile(test.output).Match(out) {
				t.Errorf("the output is\n%s\nand does not match %s", out, test.output)
			}
		})
	}
}

// compile is the folder with the programs.
func compile(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	// Without tables for debuggers they are linked faster.
	out, err := exec.Command("go", "build", "-ldflags", "-s -w", "-o", folder, "./...").CombinedOutput()
	if err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return folder
}
