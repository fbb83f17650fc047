package loadgen

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"time"
)

// maxEvent is the longest line of a stream that is read, in bytes.
const maxEvent = 1 << 20

// event is what counts of a chunk of a streamed answer, be it to a completion or to a chat.
type event struct {
	Choices []struct {
		Text   string `json:"text"`
		Reason string `json:"finish_reason"`
		Delta  struct {
			Role             string          `json:"role"`
			Content          string          `json:"content"`
			ReasoningContent string          `json:"reasoning_content"`
			Reasoning        string          `json:"reasoning"`
			ToolCalls        json.RawMessage `json:"tool_calls"`
		} `json:"delta"`
	} `json:"choices"`
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Details    struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
	Error json.RawMessage `json:"error"`
}

// token reports whether the event brings some of the answer: text, or a token whose text is held back. The first of a chat
// only names the role, and the last the reason.
func (e *event) token() bool {
	for i := range e.Choices {
		c := &e.Choices[i]
		text := c.Text+c.Delta.Content+c.Delta.ReasoningContent+c.Delta.Reasoning != "" || len(c.Delta.ToolCalls) > 0
		if text || c.Reason == "" && c.Delta.Role == "" {
			return true
		}
	}
	return false
}

// read reads the server-sent events of an answer to a request that was sent at a time.
func (r *Record) read(body io.Reader, sent time.Time) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxEvent)
	finished, pieces := false, 0
	last := sent
	for lines.Scan() {
		now := time.Now()
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if data = bytes.TrimSpace(data); !ok || len(data) == 0 || string(data) == "[DONE]" {
			continue
		}
		r.E2E = now.Sub(sent)
		var e event
		if err := json.Unmarshal(data, &e); err != nil {
			return &Failure{"bad stream", "an event is not JSON: " + err.Error()}
		}
		if len(e.Error) > 0 && string(e.Error) != "null" {
			return &Failure{"error in the stream", string(e.Error)}
		}
		if e.token() {
			if pieces++; pieces == 1 {
				r.TTFT = now.Sub(sent)
			} else {
				r.Gaps = append(r.Gaps, now.Sub(last))
			}
			last = now
		}
		for i := range e.Choices {
			finished = finished || e.Choices[i].Reason != ""
		}
		if u := e.Usage; u != nil {
			r.Input, r.Cached, r.Output = u.Prompt, u.Details.Cached, u.Completion
		}
	}
	if r.Output == 0 {
		r.Output = pieces
	}
	if pieces == 0 {
		r.TTFT = r.E2E // an answer of no text, such as one end token
	}
	switch err := lines.Err(); {
	case err != nil:
		return err
	case !finished:
		return &Failure{"cut short", "the stream ended without a finish_reason"}
	}
	return nil
}
