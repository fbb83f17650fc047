package task

import (
	"encoding/json"
	"fmt"
	"slices"
)

// arc is a line of ARC's files (Clark et al. 2018): the question with its choices inside, as AI2 publishes it, or beside it, as the hub does.
type arc struct {
	Question json.RawMessage `json:"question"`
	Choices  *struct {
		Text  []string `json:"text"`
		Label []string `json:"label"`
	} `json:"choices"`
	Key string `json:"answerKey"`
}

func readARC(name string, data []byte) (all []Question, err error) {
	err = lines(name, data, func(x *arc) error {
		q, err := x.question()
		all = append(all, q)
		return err
	})
	return all, err
}

func (x *arc) question() (q Question, err error) {
	var stem string
	var labels []string
	if x.Choices != nil {
		if err := json.Unmarshal(x.Question, &stem); err != nil {
			return q, fmt.Errorf("question is no text: %w", err)
		}
		labels = x.Choices.Label
		for _, c := range x.Choices.Text {
			q.Choices = append(q.Choices, " "+c)
		}
	} else {
		var inside struct {
			Stem    string                         `json:"stem"`
			Choices []struct{ Text, Label string } `json:"choices"`
		}
		if err := json.Unmarshal(x.Question, &inside); err != nil {
			return q, fmt.Errorf("question is neither a text with choices beside it nor an object with stem and choices: %w", err)
		}
		stem = inside.Stem
		for _, c := range inside.Choices {
			q.Choices, labels = append(q.Choices, " "+c.Text), append(labels, c.Label)
		}
	}
	q.Context, q.Right = "Question: "+stem+"\nAnswer:", slices.Index(labels, x.Key)
	if len(labels) != len(q.Choices) || q.Right < 0 {
		return q, fmt.Errorf("answerKey is %q and the %d choices have the labels %q", x.Key, len(q.Choices), labels)
	}
	return q, q.check()
}
