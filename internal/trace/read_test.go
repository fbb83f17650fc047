package trace_test

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ridge-llm/ridge/internal/trace"
)

const ms = time.Millisecond

func load(t *testing.T, source string) *trace.Trace {
	t.Helper()
	tr, err := trace.Load(source)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func TestFormats(t *testing.T) {
	for file, want := range map[string]*trace.Trace{
		"testdata/azure.csv": {Name: "azure.csv", Requests: []trace.Request{
			{Input: 374, Output: 44}, {At: 4314579 * time.Microsecond, Input: 396, Output: 109}, {At: 4541877 * time.Microsecond, Input: 879, Output: 55}}},
		// Its rows are out of order.
		"testdata/mooncake.jsonl": {Name: "mooncake.jsonl", BlockSize: 512, Requests: []trace.Request{
			{Input: 1100, Output: 52, Blocks: []uint64{46, 47, 48}}, {At: 1518 * ms, Input: 3, Output: 1, Blocks: []uint64{50}},
			{At: 3053 * ms, Input: 1030, Output: 26, Blocks: []uint64{46, 47, 49}}}},
		"testdata/aibrix.jsonl": {Name: "aibrix.jsonl", Requests: []trace.Request{
			{Input: 5, Output: 22, Prompt: "Tell me of a fox"}, {At: 5 * ms, Input: 2, Output: 8, Prompt: "Hello", Session: "s1"}, {At: 5 * ms, Input: 1, Output: 1, Prompt: "?"}}},
	} {
		if diff := cmp.Diff(want, load(t, file)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}

// TestBadRows: the error says where, what is there and what should be.
func TestBadRows(t *testing.T) {
	const header, first = "TIMESTAMP,ContextTokens,GeneratedTokens\n", `{"timestamp": 0, "input_length": 600, "output_length": 2, "hash_ids": [1, 2]}` + "\n"
	for text, want := range map[string]string{
		"":                                       "trace: x has no requests",
		header:                                   "trace: x has no requests",
		"a,b\n":                                  `trace: x, line 1: the row is "a,b"; the header of an Azure trace`,
		header + "2023-11-16 18:17:03,4808\n":    `line 2: the row is "2023-11-16 18:17:03,4808"; three fields`,
		header + "yesterday,1,2\n":               `line 2: TIMESTAMP is "yesterday"; a time from 2020 to 2029 such as`,
		header + "1823-11-16 18:17:03,1,2\n":     `line 2: TIMESTAMP is "1823-11-16`,
		header + "\n2023-11-16 18:17:03,one,2\n": `line 3: ContextTokens is NaN; a whole number`,
		header + "2023-11-16 18:17:03,0,1\n":     `line 2: ContextTokens is 0; a whole number of tokens from 1 to 16777216 is expected`,
		header + "2023-11-16 18:17:03,1,NaN\n":   `GeneratedTokens is NaN`,
		first + "{\n":                            `line 2: the row is "{" (unexpected end of JSON input); a JSON object is expected`,
		first + `{"timestamp": "soon"}`:          `line 2: timestamp is a JSON string; a number is expected`,
		first + `{"timestamp": -1, "input_length": 1}`:                                                       `line 2: timestamp is -1; milliseconds since the trace began`,
		first + `{"timestamp": 1e300, "input_length": 1}`:                                                    `line 2: timestamp is 1e+300`,
		first + `{"timestamp": 1}`:                                                                           `line 2: input_length is missing`,
		first + `{"timestamp": 1, "input_length": 2.5}`:                                                      `input_length is 2.5`,
		first + `{"timestamp": 1, "input_length": 1e9}`:                                                      `input_length is 1e+09`,
		first + `{"timestamp": 1, "input_length": 5, "output_length": 1, "hash_ids": [1, 2]}`:                `hash_ids is 2 blocks long; at most one for every 512 tokens of input_length, 1,`,
		first + `{"timestamp": 1, "input_length": 5, "output_length": 1, "hash_ids": [9e18]}`:                `hash_ids`,
		first + `{"timestamp": 1, "input_length": 5, "output_length": 1, "hash_ids": [9000000000000000000]}`: `hash_ids is 9000000000000000000; IDs below 2^62`,
		`{"timestamp": 1, "requests": [{"prompt": "a"}]}`:                                                    `line 1: requests[0].Prompt Length is missing`,
		`{"requests": []}`: `line 1: timestamp is missing`,
	} {
		_, err := trace.Read("x", strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %s", text, err, want)
		}
	}
	if _, err := trace.Load("nosuch:rate=4"); err == nil || !strings.Contains(err.Error(), "burst:, constant:, gamma:, poisson:") {
		t.Errorf("an unknown spec: %v", err)
	}
}

// TestPublished reads the published traces whole. Counts and lengths are those that their READMEs name, or that wc does.
func TestPublished(t *testing.T) {
	for file, want := range map[string]struct{ n, input int }{
		"azure2023/AzureLLMInferenceTrace_code.csv": {8819, 2048},
		"azure2023/AzureLLMInferenceTrace_conv.csv": {19366, 1155},
		"mooncake/conversation_trace.jsonl":         {12031, 12035},
		"mooncake/synthetic_trace.jsonl":            {3993, 15325},
		"aibrix-sharegpt/5s.jsonl":                  {203, 0},
		"aibrix-sharegpt/8min_up_and_down.jsonl":    {2026, 0},
	} {
		path := "../../../shared/traces/" + file
		if _, err := os.Stat(path); err != nil {
			t.Skip("the published traces are not in ../shared")
		}
		tr := load(t, path)
		sum := 0
		for i := range tr.Requests {
			sum += tr.Requests[i].Input
		}
		if mean := (sum + len(tr.Requests)/2) / len(tr.Requests); len(tr.Requests) != want.n || want.input != 0 && mean != want.input {
			t.Errorf("%s: %d requests of %d tokens on average; want %d of %d", file, len(tr.Requests), mean, want.n, want.input)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, file := range []string{"testdata/azure.csv", "testdata/mooncake.jsonl", "testdata/aibrix.jsonl"} {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tr, err := trace.Read("fuzz", bytes.NewReader(data))
		if err != nil {
			return
		}
		checkTrace(t, tr)
		if tr, err = tr.Shorter(7.5); err != nil {
			t.Fatal(err)
		}
		checkTrace(t, tr)
	})
}

// checkTrace checks what every trace promises.
func checkTrace(t *testing.T, tr *trace.Trace) {
	t.Helper()
	last := time.Duration(0)
	for i := range tr.Requests {
		r := &tr.Requests[i]
		if r.At < last || i == 0 && r.At != 0 {
			t.Fatalf("request %d comes at %v, after one at %v", i, r.At, last)
		}
		last = r.At
		if r.Input < 1 || r.Input > trace.MaxTokens || r.Output < 1 || r.Output > trace.MaxTokens {
			t.Fatalf("request %d has %d and %d tokens", i, r.Input, r.Output)
		}
		sum := 0
		for _, s := range tr.Segments(i) {
			sum += s.Tokens
		}
		if sum != r.Input {
			t.Fatalf("request %d has segments of %d tokens and a prompt of %d", i, sum, r.Input)
		}
	}
}
