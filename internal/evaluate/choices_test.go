package evaluate

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/internal/evaluate/task"
)

// losses are the losses of the tokens of the first golden case, from the second on, by upstream's logits.
func losses(t *testing.T) (ids []int32, of []float64) {
	t.Helper()
	ids, _ = upstream(t)
	before := 0.0
	for n := 2; n <= len(ids); n++ {
		_, mean := upstreamOf(t, n)
		of = append(of, mean*float64(n-1)-before)
		before = mean * float64(n-1)
	}
	return ids, of
}

// TestLikelihoods: the likelihoods of choices are those of upstream's logits, also of a choice that begins like the one before, whose common part is
// not computed again.
func TestLikelihoods(t *testing.T) {
	ids, of := losses(t)
	sum := func(from, to int) (s float64) {
		for i := from; i < to; i++ {
			s -= of[i-1]
		}
		return s
	}
	m := open(t, true)
	q := Prepared{Windows: []Window{{ids[:20], 17}, {ids[:40], 18}, {ids, 40}, {ids[:19], 18}}}
	got, err := likelihoods(m, &q, make([]float32, m.Vocab()))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{sum(17, 20), sum(18, 40), sum(40, len(ids)), sum(18, 19)} {
		if math.Abs(got[i]-want) > 1e-3 {
			t.Errorf("choice %d: %g; %g by upstream's logits", i, got[i], want)
		}
	}
	if n := m.reusable(q.Windows[0], q.Windows[1]); n != 17 {
		t.Errorf("%d tokens of the second choice are not computed again; 17 are common and not predicted from", n)
	}
}

// TestChoicesResumed: an evaluation that was killed goes on where it was, to the same result, and with other settings not at all.
func TestChoicesResumed(t *testing.T) {
	ids, _ := upstream(t)
	m := open(t, true)
	var all []Prepared
	for i := range 6 {
		all = append(all, Prepared{Windows: []Window{{ids[:20+i], 17}, {ids[:30], 17}, {ids[:21], 20}}, Right: i % 3, Group: string(rune('a' + i%2)), Characters: []int{3 + i, 13, 1}})
	}
	none := func(int, float64) {}
	want, err := Choices(m, "x", all, nil, none)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "log")
	settings := Settings{"model": "m", "context": "64"}
	log, err := OpenLog(path, settings)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Choices(m, "x", all[:4], log, none); err != nil {
		t.Fatal(err)
	}
	log.Close()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data[:len(data)-7], 0o600); err != nil { // killed as it wrote the fourth
		t.Fatal(err)
	}
	if log, err = OpenLog(path, settings); err != nil {
		t.Fatal(err)
	}
	if len(log.done) != 3 {
		t.Errorf("%d questions were done, wanted 3", len(log.done))
	}
	got, err := Choices(m, "x", all, log, none)
	log.Close()
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; in one run %+v", got, err, want)
	}
	if data, err = os.ReadFile(path); err != nil || strings.Count(string(data), "\n") != 7 {
		t.Errorf("the log, %v:\n%s", err, data)
	}
	if _, err := OpenLog(path, Settings{"model": "m", "context": "128"}); err == nil || !strings.Contains(err.Error(), `context was "64" and is now "128"`) {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte("{\"text\": 1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenLog(path, settings); err == nil || !strings.Contains(err.Error(), "no evaluation under way") {
		t.Error(err)
	}
}

// TestPerplexityResumed: likewise of a text.
func TestPerplexityResumed(t *testing.T) {
	ids, _ := upstream(t)
	m, other := open(t, true), open(t, false)
	windows := []Window{{ids, 2}, {ids[:30], 3}, {ids[5:], 4}}
	none := func(int, float64) {}
	want, err := Perplexity(m, other, windows, nil, none)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "log")
	for _, n := range []int{2, 3} {
		log, err := OpenLog(path, Settings{"model": "m"})
		if err != nil {
			t.Fatal(err)
		}
		got, err := Perplexity(m, other, windows[:n], log, none)
		log.Close()
		if err != nil {
			t.Fatal(err)
		}
		got.Speed, want.Speed = Speed{}, Speed{}
		if n == 3 && !reflect.DeepEqual(got, want) {
			t.Errorf("%+v; in one run %+v", got, want)
		}
	}
}

// TestAnswers: numbers in answers are compared, answers of an earlier run are kept, and an error ends all.
func TestAnswers(t *testing.T) {
	problems := []task.Problem{{Question: "a", Answer: "#### 1"}, {Question: "b", Answer: "#### 2"}, {Question: "c", Answer: "#### 3"}}
	answers := map[string]string{"a": "It is 1.\n#### 1", "b": "so 2", "c": "#### 4 or 3"}
	var asked []string
	generate := func(_ context.Context, prompt string) (string, error) {
		name := prompt[len("Question: "):][:1]
		asked = append(asked, name)
		return answers[name], nil
	}
	path := filepath.Join(t.TempDir(), "log")
	none := func(int, float64) {}
	for _, n := range []int{2, 3} {
		log, err := OpenLog(path, Settings{"model": "m"})
		if err != nil {
			t.Fatal(err)
		}
		r, err := Answers(t.Context(), generate, problems[:n], nil, 1, log, none)
		log.Close()
		if err != nil || n == 3 && (r.Strict != 1.0/3 || r.Last != 1 || r.Problems != 3) {
			t.Errorf("%+v, %v", r, err)
		}
	}
	if !slices.Equal(asked, []string{"a", "b", "c"}) {
		t.Errorf("asked %q", asked)
	}
	broken := errors.New("broken")
	fails := func(context.Context, string) (string, error) { return "", broken }
	if _, err := Answers(t.Context(), fails, problems, nil, 2, nil, none); !errors.Is(err, broken) {
		t.Error(err)
	}
}
