package loadgen

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"
)

// FuzzAnswer: whatever a server streams, reading it ends, and times are sound.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte("data: {\"choices\": [{\"text\": \"a\", \"finish_reason\": \"stop\"}]}\n\ndata: [DONE]\n\n"))
	f.Add([]byte("event: x\r\ndata: {\"choices\": [{\"delta\": {\"content\": \"a\"}}]}\r\n\r\n: comment\ndata: {\"usage\": {\"completion_tokens\": -1}}\n"))
	f.Add([]byte("data: {\"error\": {\"message\": \"no\"}}\n\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		var r Record
		err := r.read(bytes.NewReader(body), time.Now())
		sum := r.TTFT
		for _, g := range r.Gaps {
			sum += g
		}
		if r.TTFT < 0 || sum > r.E2E || len(r.Gaps) > 0 && r.TTFT == 0 {
			t.Errorf("%+v %v", r, err)
		}
		r.tpot()
	})
}

// TestTokens: what counts as a token of an answer.
func TestTokens(t *testing.T) {
	for choice, want := range map[string]bool{
		`{"text": "a"}`:                                    true,
		`{"text": ""}`:                                     true, // held back
		`{"text": "", "finish_reason": "stop"}`:            false,
		`{"text": "a", "finish_reason": "stop"}`:           true,
		`{"delta": {"role": "assistant", "content": ""}}`:  false,
		`{"delta": {"role": "assistant", "content": "a"}}`: true,
		`{"delta": {"tool_calls": [{"index": 0}]}}`:        true,
		`{"delta": {"reasoning_content": "a"}}`:            true,
		`{"delta": {}}`:                                    true,
		`{"delta": {}, "finish_reason": "tool_calls"}`:     false,
	} {
		var e event
		if err := json.Unmarshal([]byte(`{"choices": [`+choice+`]}`), &e); err != nil || e.token() != want {
			t.Errorf("%s brings a token: %t, %v", choice, e.token(), err)
		}
	}
}
