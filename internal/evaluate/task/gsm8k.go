package task

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Problem is a question that is answered with a text, whose last number is the answer.
type Problem struct {
	Question string `json:"question"`
	Answer   string `json:"answer"` // worked out, with "#### " before the number at its end
}

// ReadGSM8K reads a file of GSM8K (Cobbe et al. 2021): a JSON object a line.
func ReadGSM8K(name string, data []byte) (all []Problem, err error) {
	err = lines(name, data, func(p *Problem) error {
		if p.Question == "" || p.Right() == "" {
			return errors.New("a problem is question and answer, and the answer ends with #### and a number")
		}
		all = append(all, *p)
		return nil
	})
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%s has no problems", name)
	}
	return all, err
}

// Prompt is what the model continues: examples with their answers, and the question.
func (p *Problem) Prompt(examples []Problem) string {
	var b strings.Builder
	for _, e := range examples {
		b.WriteString("Question: " + e.Question + "\nAnswer: " + e.Answer + "\n\n")
	}
	return b.String() + "Question: " + p.Question + "\nAnswer:"
}

// StopsOfGSM8K are the texts before which an answer ends: the model goes on with a question of its own.
var StopsOfGSM8K = []string{"Question:", "</s>", "<|im_end|>"}

var (
	marked = regexp.MustCompile(`#### (-?[0-9.,]+)`)
	number = regexp.MustCompile(`-?[$0-9.,]{2,}|-?[0-9]+`)
)

// Right is the number that is asked for.
func (p *Problem) Right() string { return Marked(p.Answer) }

// Marked is the number behind the first "#### " of an answer, as the examples end; "" if there is none. lm-evaluation-harness calls this strict-match.
func Marked(answer string) string {
	found := marked.FindStringSubmatch(answer)
	if found == nil {
		return ""
	}
	return plain(found[1])
}

// Last is the last number of an answer; "" if there is none. lm-evaluation-harness calls this flexible-extract.
func Last(answer string) string {
	all := number.FindAllString(answer, -1)
	if len(all) == 0 {
		return ""
	}
	return plain(all[len(all)-1])
}

// plain is a number without the signs that it may be written with.
func plain(s string) string {
	return strings.TrimSuffix(strings.NewReplacer(",", "", "$", "").Replace(s), ".")
}
