package loadgen_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestReport: the text has every figure, the JSON every request.
func TestReport(t *testing.T) {
	f := newFake(t, time.Millisecond)
	r := run(t, f, "constant:rate=1000,n=5,in=8,out=4", nil)
	r.Errors = map[string]int{"status 500": 2}
	var text bytes.Buffer
	if err := r.Print(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"5 of 5 requests answered", "0 lost", "output tokens/s", "TTFT", "ITL", "TPOT", "end to end", "sent late", "p99", "2 × status 500"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, &text)
		}
	}
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back struct {
		Completed  int
		ITL        map[string]float64 `json:"itl_ms"`
		PerRequest []struct {
			Gaps []float64 `json:"gaps_ms"`
		} `json:"per_request"`
	}
	if err := json.Unmarshal(data, &back); err != nil || back.Completed != 5 || len(back.PerRequest) != 5 || len(back.PerRequest[0].Gaps) != 3 {
		t.Errorf("%+v %v", back, err)
	}
	// How long the gaps were is the machine's affair: a reader that got no processor finds several tokens at once.
	longest := 0.0
	for _, q := range back.PerRequest {
		longest = max(longest, slices.Max(q.Gaps))
	}
	if longest <= 0 || back.ITL["max"] != longest {
		t.Errorf("the longest gap is %v ms in the requests and %v ms in the summary", longest, back.ITL["max"])
	}
}
