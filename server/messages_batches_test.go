package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ridge-llm/ridge"
)

// messageBatch is what the tests look at of a batch of messages.
type messageBatch struct {
	ID, Type string
	Status   string         `json:"processing_status"`
	Counts   map[string]int `json:"request_counts"`
	Created  time.Time      `json:"created_at"`
	Ended    *time.Time     `json:"ended_at"`
	Results  *string        `json:"results_url"`
	Error    struct{ Type, Message string }
}

// messageBatchOf makes a batch of messages.
func (c *client) messageBatchOf(requests string, want int) (b messageBatch) {
	c.t.Helper()
	if status := c.call("POST", "/v1/messages/batches", "application/json", strings.NewReader(requests), &b); status != want {
		c.t.Fatalf("%d for %s: %+v", status, requests, b)
	}
	return b
}

// untilEnded waits for a batch of messages.
func (c *client) untilEnded(id string) (b messageBatch) {
	c.t.Helper()
	for end := time.Now().Add(2 * time.Minute); b.Status != "ended"; time.Sleep(5 * time.Millisecond) {
		b = messageBatch{}
		if c.call("GET", "/v1/messages/batches/"+id, "", nil, &b); time.Now().After(end) {
			c.t.Fatalf("the batch never ends: %+v", b)
		}
	}
	return b
}

// messageResults are the results of a batch by custom id.
func (c *client) messageResults(id string) map[string]struct {
	Type    string
	Message struct {
		Content []struct{ Text string }
		Role    string
	}
	Error struct {
		Error struct{ Type, Message string }
	}
} {
	c.t.Helper()
	all := map[string]struct {
		Type    string
		Message struct {
			Content []struct{ Text string }
			Role    string
		}
		Error struct {
			Error struct{ Type, Message string }
		}
	}{}
	for line := range strings.Lines(c.get("/v1/messages/batches/" + id + "/results")) {
		var l struct {
			CustomID string `json:"custom_id"`
			Result   json.RawMessage
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			c.t.Fatalf("%v in %s", err, line)
		}
		x := all[l.CustomID]
		if err := json.Unmarshal(l.Result, &x); err != nil || x.Type == "" {
			c.t.Fatalf("%v in %s", err, line)
		}
		all[l.CustomID] = x
	}
	return all
}

// TestMessagesBatches: a batch of messages is made, told of, listed, and each of its requests ends as if it had come by itself.
func TestMessagesBatches(t *testing.T) {
	c, _ := withStore(t, t.TempDir(), ridge.Options{Context: 256, Parallel: 4})
	const params = `{"max_tokens": 6, "temperature": 0, "messages": [{"role": "user", "content": "Who are you?"}]}`
	b := c.messageBatchOf(`{"requests": [{"custom_id": "a", "params": `+params+`}, {"custom_id": "b", "params": {"max_tokens": 3}}, {"custom_id": "c", "params": `+params+`}]}`, 200)
	if !strings.HasPrefix(b.ID, "msgbatch_") || b.Type != "message_batch" || b.Created.IsZero() || b.Counts["processing"] != 3 && b.Status != "ended" {
		t.Errorf("%+v", b)
	}
	b = c.untilEnded(b.ID)
	if b.Counts["succeeded"] != 2 || b.Counts["errored"] != 1 || b.Counts["processing"] != 0 || b.Ended == nil || b.Results == nil || !strings.HasSuffix(*b.Results, "/v1/messages/batches/"+b.ID+"/results") || !strings.HasPrefix(*b.Results, "http://") {
		t.Errorf("%+v", b)
	}
	results := c.messageResults(b.ID)
	var one struct{ Content []struct{ Text string } }
	c.call("POST", "/v1/messages", "application/json", strings.NewReader(params), &one)
	if a := results["a"]; len(results) != 3 || a.Type != "succeeded" || a.Message.Role != "assistant" || len(a.Message.Content) != 1 || a.Message.Content[0].Text != one.Content[0].Text {
		t.Errorf("%+v; alone %+v", results, one)
	}
	if x := results["b"]; x.Type != "errored" || x.Error.Error.Type != "invalid_request_error" || !strings.Contains(x.Error.Error.Message, "messages") {
		t.Errorf("%+v", x)
	}
	other := c.messageBatchOf(`{"requests": [{"custom_id": "z", "params": `+params+`}]}`, 200)
	c.untilEnded(other.ID)
	var list struct {
		Data  []messageBatch
		More  bool   `json:"has_more"`
		First string `json:"first_id"`
	}
	c.call("GET", "/v1/messages/batches?limit=1", "", nil, &list)
	if len(list.Data) != 1 || !list.More || list.First != other.ID {
		t.Errorf("%+v", list)
	}
	for query, want := range map[string]string{"after_id=" + other.ID: b.ID, "before_id=" + b.ID: other.ID} {
		list.Data = nil
		if c.call("GET", "/v1/messages/batches?"+query, "", nil, &list); len(list.Data) != 1 || list.Data[0].ID != want || list.More {
			t.Errorf("%s: %+v", query, list)
		}
	}
	var gone messageBatch
	for _, id := range []string{"msgbatch_none", strings.Replace(b.ID, "msgbatch_", "batch_", 1)} {
		if status := c.call("GET", "/v1/messages/batches/"+id, "", nil, &gone); status != 404 || gone.Error.Type != "not_found_error" {
			t.Errorf("%s: %d %+v", id, status, gone)
		}
	}
	for body, why := range map[string]string{
		`{}`: "the body should be", `{"requests": []}`: "requests is empty", `{"requests": [{"params": {}}]}`: "custom_id is missing", `{"requests": [{"custom_id": "a"}]}`: "params is missing",
		`{"requests": [{"custom_id": "a", "params": {}}, {"custom_id": "a", "params": {}}]}`: "that of another", `{"requests": [{"custom_id": "a", "params": {}}`: "the body should be",
		`nonsense`: "the body should be",
	} {
		if bad := c.messageBatchOf(body, 400); !strings.Contains(bad.Error.Message, why) {
			t.Errorf("%s: %+v, want %q", body, bad, why)
		}
	}
	var files struct{ Data []struct{ Filename string } }
	if c.call("GET", "/v1/files?purpose=batch", "", nil, &files); len(files.Data) != 2 {
		t.Errorf("the inputs of what was refused are kept: %+v", files)
	}
}

// TestMessagesBatchCancelled: what was not answered when a batch was cancelled is canceled, what was is there.
func TestMessagesBatchCancelled(t *testing.T) {
	c, _ := withStore(t, t.TempDir(), ridge.Options{Context: 256, Parallel: 2})
	var requests []string
	for i := range 60 {
		requests = append(requests, fmt.Sprintf(`{"custom_id": "r%d", "params": {"max_tokens": 60, "messages": [{"role": "user", "content": "Tell me a story about the number %d."}]}}`, i, i))
	}
	b := c.messageBatchOf(`{"requests": [`+strings.Join(requests, ",")+`]}`, 200)
	var gone messageBatch
	if status := c.call("DELETE", "/v1/messages/batches/"+b.ID, "", nil, &gone); status != 400 || !strings.Contains(gone.Error.Message, "has not ended") {
		t.Errorf("one under way was deleted: %d %+v", status, gone)
	}
	var text string
	if status := c.call("GET", "/v1/messages/batches/"+b.ID+"/results", "", nil, &text); status != 404 || !strings.Contains(text, "has not ended") {
		t.Errorf("%d %s", status, text)
	}
	var now messageBatch
	if status := c.call("POST", "/v1/messages/batches/"+b.ID+"/cancel", "", nil, &now); status != 200 || now.Status != "canceling" && now.Status != "ended" {
		t.Fatalf("%d %+v", status, now)
	}
	b = c.untilEnded(b.ID)
	counted := map[string]int{}
	for _, x := range c.messageResults(b.ID) {
		counted[x.Type]++
	}
	if counted["canceled"] == 0 || counted["canceled"]+counted["succeeded"] != 60 || counted["canceled"] != b.Counts["canceled"] || counted["succeeded"] != b.Counts["succeeded"] {
		t.Errorf("%v, and the batch says %v", counted, b.Counts)
	}
	gone = messageBatch{}
	if status := c.call("DELETE", "/v1/messages/batches/"+b.ID, "", nil, &gone); status != 200 || gone.ID != b.ID || gone.Type != "message_batch_deleted" {
		t.Errorf("%d %+v", status, gone)
	}
	var files struct{ Data []any }
	if c.call("GET", "/v1/files", "", nil, &files); len(files.Data) != 0 {
		t.Errorf("its files are still there: %v", files)
	}
	for _, method := range []string{"GET", "DELETE"} {
		if status := c.call(method, "/v1/messages/batches/"+b.ID, "", nil, &gone); status != 404 {
			t.Errorf("%s of one that was deleted: %d", method, status)
		}
	}
}
