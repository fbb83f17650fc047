package server_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
)

// echoed is what lm-evaluation-harness looks at of a completion.
type echoed struct {
	Choices []struct {
		Index    int
		Text     string
		Finish   string `json:"finish_reason"`
		Logprobs struct {
			Tokens   []string
			Logprobs []*float64           `json:"token_logprobs"`
			Top      []map[string]float64 `json:"top_logprobs"`
			Offsets  []int                `json:"text_offset"`
		}
	}
	Usage struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
	}
}

func complete(t *testing.T, h *httptest.Server, body string) (a echoed) {
	t.Helper()
	status, text := post(t, h, "/v1/completions", body)
	if status != 200 {
		t.Fatalf("%s: %d %s", body, status, text)
	}
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// likelihood is lm-evaluation-harness's parse_logprobs for one choice (lm_eval/models/openai_completions.py): the sum of what follows the context, without the
// last token, which was generated, and whether all of it was the likeliest.
func likelihood(a *echoed, choice, context int) (sum float64, greedy bool) {
	l := &a.Choices[choice].Logprobs
	greedy = true
	for i := context; i < len(l.Logprobs)-1; i++ {
		sum += *l.Logprobs[i]
		top := math.Inf(-1)
		for _, x := range l.Top[i] {
			top = max(top, x)
		}
		greedy = greedy && *l.Logprobs[i] == top
	}
	return sum, greedy
}

// TestEchoLogprobs sends what lm-evaluation-harness's local-completions does and reads the answers as it does.
func TestEchoLogprobs(t *testing.T) {
	h, m := start(t, ridge.Options{}, server.Options{})
	ids := func(text string) []int32 {
		x, err := m.Encode(text, true)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	made := complete(t, h, `{"prompt": "Once upon a time", "temperature": 0, "max_tokens": 12, "logprobs": 1}`)
	context := ids("Once upon a time")
	want := 0.0
	for _, x := range made.Choices[0].Logprobs.Logprobs {
		want += *x
	}
	likely, unlikely := ids("Once upon a time"+made.Choices[0].Text), ids("Once upon a time purple seven the the")
	list := func(x []int32) string { b, _ := json.Marshal(x); return string(b) }
	// The payload of a batch of two (TemplateAPI.batch_loglikelihood_requests), tokens as ids.
	for range 2 { // the second time, what the prompts begin with would be in the cache
		a := complete(t, h, fmt.Sprintf(`{"model": "demo", "prompt": [%s, %s], "temperature": 0, "max_tokens": 1, "logprobs": 1, "seed": 1234, "echo": true}`, list(likely), list(unlikely)))
		if len(a.Choices) != 2 || a.Usage.Prompt != len(likely)+len(unlikely) {
			t.Fatalf("%+v", a)
		}
		for i, prompt := range [][]int32{likely, unlikely} {
			l := &a.Choices[i].Logprobs
			if n := len(prompt) + 1; len(l.Tokens) != n || len(l.Logprobs) != n || len(l.Top) != n || len(l.Offsets) != n || l.Logprobs[0] != nil || l.Top[0] != nil {
				t.Fatalf("choice %d: %d tokens for a prompt of %d and one generated: %+v", i, len(l.Tokens), len(prompt), l)
			}
			if !strings.HasPrefix(a.Choices[i].Text, "Once upon a time") || !slices.IsSorted(l.Offsets) || l.Offsets[1] != len("Once") {
				t.Errorf("choice %d: %q, offsets %v", i, a.Choices[i].Text, l.Offsets)
			}
		}
		if sum, greedy := likelihood(&a, 0, len(context)); math.Abs(sum-want) > 0.05 || !greedy {
			t.Errorf("the likely continuation has %g, greedy %v; %g when it was made", sum, greedy, want)
		}
		if sum, greedy := likelihood(&a, 1, len(context)); sum > want-10 || greedy {
			t.Errorf("the unlikely continuation has %g, greedy %v", sum, greedy)
		}
	}

	// max_tokens 0: the prompt alone, as text; twice, with n.
	a := complete(t, h, `{"prompt": "Once upon a time", "max_tokens": 0, "logprobs": 0, "echo": true, "n": 2}`)
	for i := range a.Choices {
		c := &a.Choices[i]
		if c.Text != "Once upon a time" || len(c.Logprobs.Tokens) != len(context) || c.Finish != "length" || a.Usage.Completion != 0 || len(c.Logprobs.Top[1]) != 1 {
			t.Errorf("%+v", a)
		}
	}
	if len(a.Choices) != 2 {
		t.Errorf("%d choices", len(a.Choices))
	}
	if a := complete(t, h, `{"prompt": "Once", "max_tokens": 0, "echo": true}`); a.Choices[0].Text != "Once" || a.Usage.Completion != 0 {
		t.Errorf("%+v", a)
	}
	// Several answers: the prompt's are in each.
	a = complete(t, h, `{"prompt": "Once upon a time", "max_tokens": 3, "logprobs": 1, "echo": true, "n": 3, "seed": 1, "ignore_eos": true}`)
	for i := range a.Choices {
		if l := &a.Choices[i].Logprobs; len(l.Tokens) != len(context)+3 || *l.Logprobs[2] != *a.Choices[0].Logprobs.Logprobs[2] {
			t.Errorf("choice %d: %+v", i, l)
		}
	}
	// Where the token that is generated is an end, it is in the lists, so that dropping the last drops nothing of the prompt.
	end := -1
	for id := range m.Vocab() {
		if string(m.Token(int32(id))) == "<|im_end|>" {
			end = id
		}
	}
	a = complete(t, h, fmt.Sprintf(`{"prompt": %s, "temperature": 0, "max_tokens": 1, "logprobs": 1, "echo": true, "logit_bias": {"%d": 100}}`, list(likely), end))
	if l := &a.Choices[0].Logprobs; a.Choices[0].Finish != "stop" || len(l.Tokens) != len(likely)+1 || l.Tokens[len(likely)] != "<|im_end|>" {
		t.Errorf("%q, %q", a.Choices[0].Finish, l.Tokens)
	}
	if sum, _ := likelihood(&a, 0, len(context)); math.Abs(sum-want) > 0.05 {
		t.Errorf("with an end behind it the likely continuation has %g, wanted %g", sum, want)
	}
}

// TestEchoLogprobsStream: the first event has the prompt's.
func TestEchoLogprobsStream(t *testing.T) {
	h, _ := start(t, ridge.Options{}, server.Options{})
	const body = `{"prompt": "Once upon a time", "temperature": 0, "max_tokens": 4, "logprobs": 1, "echo": true, "ignore_eos": true`
	whole := complete(t, h, body+`}`)
	_, text := post(t, h, "/v1/completions", body+`, "stream": true}`)
	var streamed string
	var tokens []string
	for _, e := range events(t, text) {
		for _, c := range e.Choices {
			streamed += c.Text
			if c.Logprobs != nil {
				tokens = append(tokens, c.Logprobs.Tokens...)
			}
		}
	}
	if streamed != whole.Choices[0].Text || !slices.Equal(tokens, whole.Choices[0].Logprobs.Tokens) {
		t.Errorf("the stream says %q, %q; the whole answer %q, %q", streamed, tokens, whole.Choices[0].Text, whole.Choices[0].Logprobs.Tokens)
	}
}

// TestHarnessGenerates sends what local-completions does for tasks that are generated (generate_until): prompts as ids, several to a request, and as many
// stop strings as the task and the end of the text are, more than OpenAI takes.
func TestHarnessGenerates(t *testing.T) {
	h, m := start(t, ridge.Options{}, server.Options{})
	var prompts [][]int32
	for _, text := range []string{"Once upon a time", "Once upon a time there was"} {
		x, err := m.Encode(text, true)
		if err != nil {
			t.Fatal(err)
		}
		prompts = append(prompts, x)
	}
	list, err := json.Marshal(prompts)
	if err != nil {
		t.Fatal(err)
	}
	free := complete(t, h, fmt.Sprintf(`{"prompt": %s, "model": "demo", "max_tokens": 48, "temperature": 0, "stop": ["Question:", "<|endoftext|>"], "seed": 1234}`, list))
	ended := complete(t, h, fmt.Sprintf(`{"prompt": %s, "model": "demo", "max_tokens": 48, "temperature": 0, "stop": ["Q:", "\n\n", "Question:", "</s>", "<|im_end|>", ".", "<|endoftext|>"], "seed": 1234}`, list))
	if len(free.Choices) != 2 || len(ended.Choices) != 2 {
		t.Fatalf("%d and %d answers", len(free.Choices), len(ended.Choices))
	}
	for i := range 2 {
		want, _, found := strings.Cut(free.Choices[i].Text, ".")
		if c := ended.Choices[i]; !found || c.Index != i || c.Text != want || c.Finish != "stop" {
			t.Errorf("answer %d is %q (%s), and without stop strings %q", i, c.Text, c.Finish, free.Choices[i].Text)
		}
	}
}
