package task

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

// letters name the choices of a question of MMLU, which has four.
const letters = "ABCD"

// mmlu is a line of the hub's files of MMLU (Hendrycks et al. 2021).
type mmlu struct {
	Question string   `json:"question"`
	Subject  string   `json:"subject"`
	Choices  []string `json:"choices"`
	Answer   int      `json:"answer"`
}

// readMMLU reads JSON lines, or the authors' CSV, SUBJECT_test.csv: question, four choices, the letter of the right one.
func readMMLU(name string, data []byte) (all []Question, err error) {
	if isCSV(name) {
		return readMMLUTable(name, data)
	}
	err = lines(name, data, func(x *mmlu) error {
		q, err := x.question()
		all = append(all, q)
		return err
	})
	return all, err
}

func readMMLUTable(name string, data []byte) (all []Question, err error) {
	subject := strings.TrimSuffix(filepath.Base(name), filepath.Ext(name))
	for _, split := range []string{"_test", "_val", "_dev"} {
		subject = strings.TrimSuffix(subject, split)
	}
	in := csv.NewReader(bytes.NewReader(data))
	in.FieldsPerRecord = 2 + len(letters)
	for {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		line, _ := in.FieldPos(0)
		x := mmlu{Question: row[0], Subject: subject, Choices: row[1 : 1+len(letters)], Answer: strings.Index(letters, strings.TrimSpace(row[1+len(letters)]))}
		q, err := x.question()
		if err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", name, line, err)
		}
		all = append(all, q)
	}
}

func (x *mmlu) question() (Question, error) {
	if len(x.Choices) != len(letters) {
		return Question{}, fmt.Errorf("the question has %d choices; those of MMLU have %d", len(x.Choices), len(letters))
	}
	var b strings.Builder
	b.WriteString(strings.TrimSpace(x.Question))
	q := Question{Right: x.Answer, Group: x.Subject}
	for i, c := range x.Choices {
		fmt.Fprintf(&b, "\n%c. %s", letters[i], c)
		q.Choices = append(q.Choices, " "+letters[i:i+1])
	}
	q.Context = b.String() + "\nAnswer:"
	return q, q.check()
}

// headingOfMMLU is what the authors have before the questions of a subject.
func headingOfMMLU(subject string) string {
	if subject == "" {
		return ""
	}
	return "The following are multiple choice questions (with answers) about " + strings.ReplaceAll(subject, "_", " ") + ".\n\n"
}
