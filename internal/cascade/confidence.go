// Package cascade is what decides in a cascade of models: a small model answers first, and what it is not sure of goes on to a larger one (FrugalGPT, Chen et
// al., arXiv:2305.05176). It knows no models: numbers and texts only.
package cascade

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// MaxSamples is the most answers beside one that say how sure a model is.
const MaxSamples = 16

// CheckThreshold refuses what no confidence can be compared with.
func CheckThreshold(t float64) error {
	if !(t >= 0 && t <= 1) {
		return fmt.Errorf("cascade: a threshold of %g; 0 (the first model answers all) to 1 is possible", t)
	}
	return nil
}

// Confidence is how sure a model is of an answer, 0 to 1: the geometric mean of its tokens' probabilities, which is the exponential of their mean log-probability; or,
// with Samples, how far so many other answers to the same prompt agree with it (self-consistency, Wang et al., arXiv:2203.11171). Goroutines may use it at the same time.
type Confidence struct {
	Samples int // other answers; 0: probabilities say it

	mu      sync.Mutex
	sum     float64 // of log-probabilities
	tokens  int
	failed  bool
	answers []strings.Builder // the answer itself, and the others
}

// Token takes in the log-probability of a token of the answer.
func (c *Confidence) Token(logprob float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sum, c.tokens = c.sum+logprob, c.tokens+1
}

// Text takes in a piece of the answer (0), or of other answer i from 1 on.
func (c *Confidence) Text(i int, piece string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answers == nil {
		c.answers = make([]strings.Builder, 1+c.Samples)
	}
	c.answers[i].WriteString(piece)
}

// Fail says that the answer, or one beside it, ended with an error.
func (c *Confidence) Fail() {
	c.mu.Lock()
	c.failed = true
	c.mu.Unlock()
}

// Value is the confidence; 0 of an answer without a token, and below every threshold of one that failed.
func (c *Confidence) Value() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.failed:
		return -1
	case c.tokens == 0:
		return 0
	case c.Samples == 0:
		return math.Exp(c.sum / float64(c.tokens))
	case c.answers == nil:
		return 0
	}
	sum, own := 0.0, c.answers[0].String()
	for i := range c.Samples {
		sum += Agreement(own, c.answers[1+i].String())
	}
	return sum / float64(c.Samples)
}

// Agreement is how far two texts say the same, 0 to 1: their longest common subsequence of words, without case and punctuation, by the words of both on average
// (the F1 of ROUGE-L, Lin, 2004). Of two texts without words it is 1.
func Agreement(a, b string) float64 {
	x, y := words(a), words(b)
	if len(x)+len(y) == 0 {
		return 1
	}
	row := make([]int, len(y)+1) // longest common subsequences of what is before and the first words of y
	for _, w := range x {
		left := 0 // of the row before, one word less
		for j, v := range y {
			above := row[j+1]
			if w == v {
				row[j+1] = left + 1
			} else {
				row[j+1] = max(above, row[j])
			}
			left = above
		}
	}
	return 2 * float64(row[len(y)]) / float64(len(x)+len(y))
}

// mostWords bounds what comparing two texts takes.
const mostWords = 4096

// words are a text's, up to mostWords.
func words(text string) []string {
	all := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
	return slices.Clip(all[:min(len(all), mostWords)])
}
