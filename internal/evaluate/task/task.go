// Package task reads the files of benchmarks: questions of which a model has to find the right one of several continuations (HellaSwag, ARC,
// MMLU), and those that it answers with a text (GSM8K). Prompts are written as lm-evaluation-harness writes them, so that figures can be compared.
package task

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Question has a context and texts that may continue it, of which one is right.
type Question struct {
	Context string
	Choices []string // each begins with the space between it and the context
	Right   int      // index of the right choice
	Group   string   // the subject, of a benchmark with several; else ""
}

// Shown is the question with its right answer, as an example for others.
func (q *Question) Shown() string { return q.Context + q.Choices[q.Right] }

// Choices is a benchmark of such questions.
type Choices struct {
	Name string
	// read reads a file. Lines are counted in errors.
	read func(name string, data []byte) ([]Question, error)
	// heading comes before the examples and the question; nil: nothing does.
	heading func(group string) string
}

// All are the benchmarks of choices.
var All = []Choices{
	{"hellaswag", readHellaSwag, nil},
	{"arc", readARC, nil},
	{"mmlu", readMMLU, headingOfMMLU},
}

// ByName is a benchmark of choices; ok is false if there is none of that name.
func ByName(name string) (c Choices, ok bool) {
	i := slices.IndexFunc(All, func(c Choices) bool { return c.Name == name })
	if i < 0 {
		return c, false
	}
	return All[i], true
}

// Read reads the questions of a file. One that has none, or one that is not a question of this benchmark, is an error that names the line.
func (c Choices) Read(name string, data []byte) ([]Question, error) {
	all, err := c.read(name, data)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%s has no questions", name)
	}
	return all, err
}

// Prompt is what a question's choices continue: the heading, so many examples of the question's group, and its context.
func (c Choices) Prompt(q *Question, examples []Question, shots int) (string, error) {
	var b strings.Builder
	if c.heading != nil {
		b.WriteString(c.heading(q.Group))
	}
	shown := 0
	for i := 0; i < len(examples) && shown < shots; i++ {
		if e := &examples[i]; e.Group == q.Group {
			b.WriteString(e.Shown() + "\n\n")
			shown++
		}
	}
	if shown < shots {
		return "", fmt.Errorf("the examples have %d questions%s, and %d are to be shown; give more with --examples or ask for fewer with --shots", shown, of(q.Group), shots)
	}
	return b.String() + q.Context, nil
}

func of(group string) string {
	if group == "" {
		return ""
	}
	return " of " + group
}

// lines reads a file of a JSON object a line. each gets one of them.
func lines[T any](name string, data []byte, each func(*T) error) error {
	in := bufio.NewScanner(bytes.NewReader(data))
	in.Buffer(nil, 1<<24)
	for n := 1; in.Scan(); n++ {
		if len(bytes.TrimSpace(in.Bytes())) == 0 {
			continue
		}
		var x T
		err := json.Unmarshal(in.Bytes(), &x)
		if err == nil {
			err = each(&x)
		}
		if err != nil {
			return fmt.Errorf("%s, line %d: %w", name, n, err)
		}
	}
	if err := in.Err(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// isCSV reports whether a file is comma-separated values by its name.
func isCSV(name string) bool { return strings.EqualFold(filepath.Ext(name), ".csv") }

// check refuses an answer that is none of the choices.
func (q *Question) check() error {
	if len(q.Choices) < 2 || q.Right < 0 || q.Right >= len(q.Choices) {
		return fmt.Errorf("the question has %d choices, and number %d, counted from 0, is to be the right one", len(q.Choices), q.Right)
	}
	for i, c := range q.Choices {
		if strings.TrimSpace(c) == "" {
			return fmt.Errorf("choice %d is empty", i)
		}
	}
	return nil
}
