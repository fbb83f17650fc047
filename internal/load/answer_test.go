package load

import (
	"bytes"
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
