package server_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
	"github.com/ridge-llm/ridge/server/access"
	"github.com/ridge-llm/ridge/server/store"
)

// kept is what the tests look at of a response that may be kept.
type kept struct {
	response
	ID       string
	Store    bool
	Previous string `json:"previous_response_id"`
	Error    *struct{ Message, Code, Param string }
}

// itemList is what the tests look at of a list of items.
type itemList struct {
	Data []struct {
		ID, Type, Role string
		Content        []struct{ Type, Text string }
	}
	More bool `json:"has_more"`
}

// respondKept sends a request for a response.
func (c *client) respondKept(body string) (status int, k kept) {
	c.t.Helper()
	status = c.call("POST", "/v1/responses", "application/json", strings.NewReader(body), &k)
	return status, k
}

// TestKeptResponses: a response is kept unless store is false, and another goes on from it as if the request had the whole conversation; also
// after the process was killed. A deleted one is gone, and what went on from it has its conversation still.
func TestKeptResponses(t *testing.T) {
	dir := t.TempDir()
	c, kill := spawn(t, dir)
	_, first := c.respondKept(`{"input": "Who are you?", "temperature": 0}`)
	if !first.Store || !strings.HasPrefix(first.ID, "resp_") || first.Status != "completed" {
		t.Fatalf("%+v", first)
	}
	kill()
	c, _ = spawn(t, dir)

	var again kept
	if status := c.call("GET", "/v1/responses/"+first.ID, "", nil, &again); status != 200 || fmt.Sprint(again.Output) != fmt.Sprint(first.Output) || !again.Store {
		t.Errorf("%d %+v, it was %+v", status, again, first)
	}
	const more = `"temperature": 0, "max_output_tokens": 12, "instructions": "Be brief."`
	_, second := c.respondKept(`{"previous_response_id": "` + first.ID + `", "input": [{"role": "user", "content": "Tell me a story."}], ` + more + `}`)
	answer, err := json.Marshal(first.Output[0].Content[0].Text)
	if err != nil {
		t.Fatal(err)
	}
	_, whole := c.respondKept(`{"store": false, "input": [{"role": "user", "content": "Who are you?"}, {"role": "assistant", "content": ` + string(answer) + `}, {"role": "user", "content": "Tell me a story."}], ` + more + `}`)
	if second.Previous != first.ID || second.Usage == nil || second.Usage.Input != whole.Usage.Input || second.Output[0].Content[0].Text != whole.Output[0].Content[0].Text {
		t.Errorf("%+v, and with the whole conversation %+v", second, whole)
	}
	if status := c.call("GET", "/v1/responses/"+whole.ID, "", nil, &again); status != 404 || whole.Store {
		t.Errorf("a response with store: false: %d, store %t", status, whole.Store)
	}

	var list itemList
	c.call("GET", "/v1/responses/"+second.ID+"/input_items?order=asc", "", nil, &list)
	if len(list.Data) != 3 || list.Data[0].Content[0].Text != "Who are you?" || list.Data[0].Content[0].Type != "input_text" || list.Data[1].Role != "assistant" || list.Data[2].Content[0].Text != "Tell me a story." || list.Data[2].ID == "" {
		t.Errorf("%+v", list)
	}
	after := list.Data[0].ID
	list = itemList{}
	c.call("GET", "/v1/responses/"+second.ID+"/input_items?order=asc&limit=1&after="+after, "", nil, &list)
	if len(list.Data) != 1 || list.Data[0].Role != "assistant" || !list.More {
		t.Errorf("after %s: %+v", after, list)
	}

	for _, want := range []int{200, 404} {
		var text string
		if status := c.call("DELETE", "/v1/responses/"+first.ID, "", nil, &text); status != want {
			t.Errorf("deleted: %d %s, want %d", status, text, want)
		}
	}
	if status, k := c.respondKept(`{"previous_response_id": "` + first.ID + `", "input": "x"}`); status != 400 || k.Error.Code != "previous_response_not_found" || k.Error.Param != "previous_response_id" {
		t.Errorf("%d %+v", status, k.Error)
	}
	if status, third := c.respondKept(`{"previous_response_id": "` + second.ID + `", "input": "Go on.", "max_output_tokens": 1}`); status != 200 || third.Usage.Input <= second.Usage.Input+second.Usage.Output {
		t.Errorf("%d: %+v after %+v", status, third.Usage, second.Usage)
	}
	if status := c.call("GET", "/v1/responses/"+second.ID+"?stream=true", "", nil, &again); status != 400 || again.Error.Param != "stream" {
		t.Errorf("%d %+v", status, again.Error)
	}
}

// TestKeptStream: a streamed response is kept when its last event arrives, and is what that says; one that cannot be kept says so.
func TestKeptStream(t *testing.T) {
	dir := t.TempDir()
	c, _ := withStore(t, dir, ridge.Options{})
	last := func() (e struct{ Response kept }) {
		t.Helper()
		var text string
		c.call("POST", "/v1/responses", "application/json", strings.NewReader(`{"input": "Who are you?", "temperature": 0, "stream": true}`), &text)
		if err := json.Unmarshal([]byte(text[strings.LastIndex(text, "data: ")+len("data: "):]), &e); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		return e
	}
	e := last()
	var k kept
	if status := c.call("GET", "/v1/responses/"+e.Response.ID, "", nil, &k); status != 200 || !e.Response.Store || fmt.Sprint(k.Output) != fmt.Sprint(e.Response.Output) {
		t.Errorf("%d %+v, streamed %+v", status, k, e.Response)
	}
	if err := os.RemoveAll(filepath.Join(dir, "responses")); err != nil {
		t.Fatal(err)
	}
	if e := last(); e.Response.Store || e.Response.Status != "completed" || len(e.Response.Output) != 1 {
		t.Errorf("without a folder to keep it in: %+v", e.Response)
	}
}

// TestKeptOfTenants: a response is its tenant's alone, and of more than the quota the oldest are forgotten.
func TestKeptOfTenants(t *testing.T) {
	h, _ := serveTenants(t, server.Options{Keys: []access.Key{key("one", "a", access.Limits{}), key("two", "b", access.Limits{})}}, store.Quota{Responses: 20 << 10})
	a, b := tenant{t, h.URL, "one"}, tenant{t, h.URL, "two"}
	make := func(c tenant) string {
		t.Helper()
		_, text := c.call("POST", "/v1/responses", `{"input": "x", "max_output_tokens": 1}`)
		var k kept
		if err := json.Unmarshal([]byte(text), &k); err != nil || !k.Store {
			t.Fatalf("%v %s", err, text)
		}
		return k.ID
	}
	mine, others := make(a), make(b)
	for _, path := range []string{"/v1/responses/" + mine, "/v1/responses/" + mine + "/input_items"} {
		if status, text := b.call("GET", path, ""); status != 404 {
			t.Errorf("%s of another tenant: %d %s", path, status, text)
		}
	}
	if status, text := b.call("DELETE", "/v1/responses/"+mine, ""); status != 404 {
		t.Errorf("deleted by another tenant: %d %s", status, text)
	}
	if status, text := b.call("POST", "/v1/responses", `{"input": "x", "previous_response_id": "`+mine+`"}`); status != 400 || !strings.Contains(text, "previous_response_not_found") {
		t.Errorf("gone on by another tenant: %d %s", status, text)
	}
	newer := []string{make(a), make(a)}
	for id, want := range map[string]int{mine: 404, newer[0]: 200, newer[1]: 200} {
		if status, text := a.call("GET", "/v1/responses/"+id, ""); status != want {
			t.Errorf("%s: %d %s, want %d", id, status, text, want)
		}
	}
	if status, _ := b.call("GET", "/v1/responses/"+others, ""); status != 200 {
		t.Errorf("the other tenant's: %d", status)
	}
}

// TestKeptOfCascade: of the answers of a cascade the client's is kept, whoever gave it, and no other.
func TestKeptOfCascade(t *testing.T) {
	for _, threshold := range []float64{0, 1} {
		dir := t.TempDir()
		st, err := store.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		h := startCascade(t, server.Stage{Name: "small", Threshold: threshold}, st)
		_, text := post(t, h, "/v1/responses", `{"input": "x", "max_output_tokens": 2}`)
		var k kept
		if err := json.Unmarshal([]byte(text), &k); err != nil || !k.Store {
			t.Errorf("%v %s", err, text)
		}
		names, err := filepath.Glob(filepath.Join(dir, "responses", "*"))
		if err != nil || len(names) != 1 || filepath.Base(names[0]) != k.ID+".json" {
			t.Errorf("threshold %g: %v %q are kept and %s was answered", threshold, err, names, k.ID)
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestKeptOfModels: of several models the server has one store, and one model can go on from another's answer.
func TestKeptOfModels(t *testing.T) {
	st, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := startMany(t, []string{"a", "b"}, 0, server.ModelsOptions{Options: server.Options{Store: st}})
	answer := func(body string) (k kept) {
		t.Helper()
		status, text, err := send(s.URL+"/v1/responses", body)
		if err == nil {
			err = json.Unmarshal([]byte(text), &k)
		}
		if err != nil || status != 200 || !k.Store {
			t.Fatalf("%d %v %s", status, err, text)
		}
		return k
	}
	first := answer(`{"model": "a", "input": "x", "max_output_tokens": 2}`)
	second := answer(`{"model": "b", "input": "x", "max_output_tokens": 2, "previous_response_id": "` + first.ID + `"}`)
	if second.Usage.Input <= first.Usage.Input {
		t.Errorf("%+v after %+v", second.Usage, first.Usage)
	}
	if status, text := fetch(t, s.URL+"/v1/responses/"+second.ID); status != 200 || !strings.Contains(text, `"model":"b"`) {
		t.Errorf("%d %s", status, text)
	}
}
