package evaluate

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/ridge-llm/ridge/internal/evaluate/task"
	"github.com/ridge-llm/ridge/tokenizer"
)

// ChoiceResult is how often a model finds the right choice.
type ChoiceResult struct {
	Task      string  `json:"task"`
	Questions int     `json:"questions"`
	Cut       int     `json:"cut,omitempty"` // of them, those whose prompt was longer than the context and lost its beginning
	Accuracy  float64 `json:"accuracy"`      // share of questions whose right choice has the largest log-likelihood
	StdErr    float64 `json:"accuracy_stderr"`
	// Normalised likewise, of log-likelihoods divided by the choices' characters, as lm-evaluation-harness's acc_norm.
	Normalised       float64 `json:"accuracy_norm"`
	NormalisedStdErr float64 `json:"accuracy_norm_stderr"`
	// Groups has the accuracy of each subject, where there are several.
	Groups map[string]float64 `json:"groups,omitempty"`
}

// Prepared is a question as a model computes it.
type Prepared struct {
	Windows    []Window // one for each choice; what is predicted is the choice
	Right      int
	Group      string
	Characters []int // of each choice
	Cut        bool
}

// Prepare encodes a question, whose prompt is what comes before its choices, as lm-evaluation-harness does: prompt and choice in one, so that
// tokens of the choice are those that follow as many as the prompt has by itself. Of what is longer than the context the beginning is left out.
func Prepare(t *tokenizer.Tokenizer, prompt string, q *task.Question, context int) (p Prepared, err error) {
	p.Right, p.Group = q.Right, q.Group
	trimmed := len(prompt)
	for trimmed > 0 && (prompt[trimmed-1] == ' ' || prompt[trimmed-1] == '\n') {
		trimmed--
	}
	before, err := t.Encode(prompt[:trimmed], tokenizer.Options{Special: true})
	if err != nil {
		return p, err
	}
	for _, choice := range q.Choices {
		all, err := t.Encode(prompt+choice, tokenizer.Options{Special: true})
		if err != nil {
			return p, err
		}
		w := Window{all, len(before)}
		if w.Score >= len(all) || w.Score == 0 {
			return p, fmt.Errorf("evaluate: the choice %q behind %q makes no token of its own", choice, prompt)
		}
		if over := len(all) - context; over > 0 {
			w, p.Cut = Window{all[over:], w.Score - over}, true
		}
		if w.Score < 1 {
			return p, fmt.Errorf("evaluate: the choice %q has %d tokens, and the context is %d", choice, len(all)-len(before), context)
		}
		p.Windows = append(p.Windows, w)
		p.Characters = append(p.Characters, utf8.RuneCountInString(choice)-1)
	}
	return p, nil
}

// Choices finds the choice of each question that the model thinks likeliest. log has the results of an earlier run, or is nil. progress is called
// after each question.
func Choices(m *Model, name string, all []Prepared, log *Log, progress func(done int, accuracy float64)) (*ChoiceResult, error) {
	r := &ChoiceResult{Task: name, Questions: len(all)}
	right, normalised := 0, 0
	ofGroup, rightOf := map[string]int{}, map[string]int{}
	p := make([]float32, m.Vocab())
	for i := range all {
		q := &all[i]
		var likely []float64 // of each choice, the logarithm
		found, err := log.found(i, &likely)
		if err == nil && !found {
			if likely, err = likelihoods(m, q, p); err == nil {
				err = log.put(i, likely)
			}
		}
		if err != nil {
			return nil, err
		}
		if len(likely) != len(q.Windows) {
			return nil, fmt.Errorf("evaluate: the log has %d likelihoods of question %d, which has %d choices; remove the file", len(likely), i, len(q.Windows))
		}
		ofGroup[q.Group]++
		if likeliest(likely, nil) == q.Right {
			right++
			rightOf[q.Group]++
		}
		if likeliest(likely, q.Characters) == q.Right {
			normalised++
		}
		if q.Cut {
			r.Cut++
		}
		progress(i+1, float64(right)/float64(i+1))
	}
	r.Accuracy, r.StdErr = share(right, len(all))
	r.Normalised, r.NormalisedStdErr = share(normalised, len(all))
	if len(ofGroup) > 1 {
		r.Groups = map[string]float64{}
		for _, g := range slices.Sorted(maps.Keys(ofGroup)) {
			r.Groups[g] = float64(rightOf[g]) / float64(ofGroup[g])
		}
	}
	return r, nil
}

// likelihoods are the logarithms of the probabilities of each choice's tokens. p is memory for a row.
func likelihoods(m *Model, q *Prepared, p []float32) (all []float64, err error) {
	for i, w := range q.Windows {
		sum, from := 0.0, 0
		if i > 0 {
			from = m.reusable(q.Windows[i-1], w)
		}
		err := m.logitsFrom(from, w, func(token int32, logits []float32) error {
			logSoftmax(p, logits)
			sum += float64(p[token])
			return nil
		})
		if err != nil {
			return nil, err
		}
		if math.IsNaN(sum) {
			return nil, fmt.Errorf("evaluate: the log-likelihood of a choice is NaN: the model's numbers have overflowed")
		}
		all = append(all, sum)
	}
	return all, nil
}

// likeliest is the first of the largest, each divided by its part of by, if there is one.
func likeliest(x []float64, by []int) int {
	best, top := 0, math.Inf(-1)
	for i, v := range x {
		if by != nil {
			v /= float64(max(by[i], 1))
		}
		if v > top {
			best, top = i, v
		}
	}
	return best
}

// share is a part of n, with its standard error as that of a mean of zeros and ones.
func share(part, n int) (p, stderr float64) {
	p = float64(part) / float64(n)
	if n > 1 {
		stderr = math.Sqrt(p * (1 - p) / float64(n-1))
	}
	return p, stderr
}
