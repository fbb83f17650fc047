package server_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/internal/testkit/leaks"
	"github.com/ridge-llm/ridge/server"
	"github.com/ridge-llm/ridge/server/store"
)

// untilStatus waits for a response in the background.
func (c *client) untilStatus(id, status string) (k kept) {
	c.t.Helper()
	for end := time.Now().Add(2 * time.Minute); k.Status != status; time.Sleep(5 * time.Millisecond) {
		k = kept{}
		if c.call("GET", "/v1/responses/"+id, "", nil, &k); time.Now().After(end) {
			c.t.Fatalf("the response is never %s: %+v", status, k)
		}
	}
	return k
}

// TestBackground: a response that is made in the background is in progress first and then what it would have been at once; it can be gone on from, cancelled and deleted.
func TestBackground(t *testing.T) {
	c, _ := withStore(t, t.TempDir(), ridge.Options{Context: 512, Parallel: 4})
	const ask = `"input": "Who are you?", "temperature": 0, "max_output_tokens": 20`
	_, now := c.respondKept(`{` + ask + `}`)
	status, k := c.respondKept(`{` + ask + `, "background": true}`)
	if status != 200 || k.Status != "in_progress" || !k.Store || len(k.Output) != 0 {
		t.Fatalf("%d %+v", status, k)
	}
	done := c.untilStatus(k.ID, now.Status)
	if len(done.Output) != 1 || done.Output[0].Content[0].Text != now.Output[0].Content[0].Text || done.Usage == nil || done.Usage.Output != now.Usage.Output {
		t.Errorf("%+v, at once %+v", done, now)
	}
	if status, next := c.respondKept(`{"previous_response_id": "` + k.ID + `", ` + ask + `}`); status != 200 {
		t.Errorf("going on: %d %+v", status, next)
	}
	var again kept
	if status := c.call("POST", "/v1/responses/"+k.ID+"/cancel", "", nil, &again); status != 200 || again.Status != done.Status {
		t.Errorf("cancelled when it had ended: %d %+v", status, again)
	}
	const long = `{"input": "Tell me a story.", "background": true, "max_output_tokens": 450}`
	_, k = c.respondKept(long)
	if status, next := c.respondKept(`{"previous_response_id": "` + k.ID + `", ` + ask + `}`); status != 400 || !strings.Contains(next.Error.Message, "still being made") {
		t.Logf("it ended before it could be gone on from: %d", status)
	}
	if status := c.call("POST", "/v1/responses/"+k.ID+"/cancel", "", nil, &again); status != 200 || again.Status != "cancelled" && again.Status != "completed" {
		t.Errorf("%d %+v", status, again)
	}
	_, k = c.respondKept(long)
	var gone map[string]any
	if status := c.call("DELETE", "/v1/responses/"+k.ID, "", nil, &gone); status != 200 {
		t.Errorf("%d %v", status, gone)
	}
	time.Sleep(50 * time.Millisecond)
	if status := c.call("GET", "/v1/responses/"+k.ID, "", nil, &gone); status != 404 {
		t.Errorf("a deleted one: %d %v", status, gone)
	}
	for _, bad := range []struct{ fields, why string }{
		{`"store": false`, "background needs a response that is kept"}, {`"max_output_tokens": -1`, "max_output_tokens"},
	} {
		if status, k := c.respondKept(`{"input": "x", "background": true, ` + bad.fields + `}`); status != 400 || !strings.Contains(k.Error.Message, bad.why) {
			t.Errorf("%s: %d %+v", bad.fields, status, k.Error)
		}
	}
	if status := c.call("POST", "/v1/responses/"+now.ID+"/cancel", "", nil, &again); status != 400 {
		t.Errorf("one that was not made in the background was cancelled: %d", status)
	}
}

// events reads a stream of events up to its end, or so many.
func (c *client) events(r io.Reader, most int) (all []responseEvent) {
	c.t.Helper()
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for len(all) < most && lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			var e responseEvent
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				c.t.Fatal(err)
			}
			all = append(all, e)
		}
	}
	return all
}

type responseEvent struct {
	Type     string
	Number   int `json:"sequence_number"`
	Delta    string
	Response kept
}

// TestBackgroundStream: a client that follows a response in the background may leave and come back, also when it has ended, and to another process.
func TestBackgroundStream(t *testing.T) {
	dir := t.TempDir()
	c, end := withStore(t, dir, ridge.Options{Context: 512, Parallel: 4})
	const ask = `{"input": "Tell me a story.", "temperature": 0, "max_output_tokens": 80, "background": true`
	r, err := http.Post(c.url+"/v1/responses", "application/json", strings.NewReader(ask+`, "stream": true}`))
	if err != nil {
		t.Fatal(err)
	}
	begun := c.events(r.Body, 2)
	r.Body.Close() // in the middle of the answer
	if len(begun) != 2 || begun[0].Type != "response.created" || begun[1].Type != "response.in_progress" || begun[1].Number != 1 {
		t.Fatalf("%d %+v", r.StatusCode, begun)
	}
	id := begun[0].Response.ID
	rest := c.events(strings.NewReader(c.get("/v1/responses/"+id+"?stream=true&starting_after=1")), 1000)
	text := ""
	for i, e := range rest {
		if e.Number != i+2 {
			t.Fatalf("event %d is in place %d", e.Number, i+2)
		}
		if e.Type == "response.output_text.delta" {
			text += e.Delta
		}
	}
	done := c.untilOver(id)
	if last := rest[len(rest)-1]; last.Type != "response."+done.Status || last.Response.Status != done.Status || text == "" || text != done.Output[0].Content[0].Text || last.Response.Output[0].Content[0].Text != text {
		t.Errorf("%+v after %q; kept was %+v", last, text, done)
	}
	_, cancelled := c.respondKept(ask + `}`)
	var refused kept
	if status := c.call("GET", "/v1/responses/"+cancelled.ID+"?stream=true", "", nil, &refused); status != 400 || !strings.Contains(refused.Error.Message, "both background and stream") {
		t.Errorf("%d %+v", status, refused)
	}
	for _, query := range []string{"stream=maybe", "stream=true&starting_after=x", "stream=true&starting_after=-1", "stream=true&starting_after=9223372036854775807"} {
		if status := c.call("GET", "/v1/responses/"+id+"?"+query, "", nil, &refused); status != 400 {
			t.Errorf("%s: %d", query, status)
		}
	}
	end()
	c, _ = withStore(t, dir, ridge.Options{Context: 64})
	again := c.events(strings.NewReader(c.get("/v1/responses/"+id+"?stream=true&starting_after=1")), 1000)
	if len(again) != len(rest) || again[len(again)-1].Response.ID != id {
		t.Errorf("%d events from another process, not %d", len(again), len(rest))
	}
}

// TestBackgroundStopped: a response in the background has failed when the server was stopped, and also when its process was killed.
func TestBackgroundStopped(t *testing.T) {
	dir := t.TempDir()
	const long = `{"input": "Tell me a story.", "background": true, "max_output_tokens": 3000, "tools": [], "temperature": 1.5}`
	c, kill := spawn(t, dir)
	_, killed := c.respondKept(long)
	kill()
	c, end := withStore(t, dir, ridge.Options{Context: 4096})
	k := kept{}
	if c.call("GET", "/v1/responses/"+killed.ID, "", nil, &k); k.Status != "failed" && k.Status != "completed" || k.Status == "failed" && !strings.Contains(k.Error.Message, "the server was stopped") {
		t.Errorf("killed: %+v", k)
	}
	_, stopped := c.respondKept(long)
	end()
	c, _ = withStore(t, dir, ridge.Options{Context: 64})
	if k = c.untilStatus(stopped.ID, "failed"); !strings.Contains(k.Error.Message, "the server was stopped") {
		t.Errorf("stopped: %+v", k)
	}
}

// TestBackgroundHolds: of several models one that makes a response in the background stays until it has.
func TestBackgroundHolds(t *testing.T) {
	leaks.Check(t)
	st, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	s := startMany(t, []string{"a", "b"}, 0, server.ModelsOptions{Most: 1, Options: server.Options{Store: st}})
	c := &client{t, s.URL}
	_, k := c.respondKept(`{"model": "a", "input": "Tell me a story.", "background": true, "max_output_tokens": 150, "temperature": 1}`)
	s.say(t, "b", "", http.StatusOK) // waits until a has ended
	if k = c.untilOver(k.ID); k.Status == "failed" {
		t.Errorf("%+v", k)
	}
	expect(t, "once a has ended", s.loaded(t), "b")
}

// untilOver waits for a response to end, however it does.
func (c *client) untilOver(id string) (k kept) {
	c.t.Helper()
	for k.Status = "in_progress"; k.Status == "in_progress"; time.Sleep(2 * time.Millisecond) {
		k = kept{}
		c.call("GET", "/v1/responses/"+id, "", nil, &k)
	}
	return k
}

// TestConversationNotKept: an answer that cannot be kept is not added to its conversation, or asking again would add it twice.
func TestConversationNotKept(t *testing.T) {
	h, _ := serveTenants(t, server.Options{Keys: aliceAndBob}, store.Quota{Responses: 9 << 10})
	c := tenant{t, h.URL, "a"}
	_, text := c.call("POST", "/v1/conversations", `{"items": [{"role": "user", "content": "Who are you?"}]}`)
	var v struct{ ID string }
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		// The response has the instructions, for which there is no room.
		_, text := c.call("POST", "/v1/responses", fmt.Sprintf(`{"conversation": %q, "input": "<x>", "max_output_tokens": 2, "instructions": %q}`, v.ID, strings.Repeat("story ", 9<<10/6)))
		var k kept
		if err := json.Unmarshal([]byte(text), &k); err != nil || k.Store || k.Status != "incomplete" && k.Status != "completed" {
			t.Fatalf("%v %s", err, text)
		}
	}
	var list itemList
	_, text = c.call("GET", "/v1/conversations/"+v.ID+"/items", "")
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list.Data) != 1 {
		t.Errorf("%v: %d items: %s", err, len(list.Data), text)
	}
}

// TestConversations: responses go on from a conversation and add to it, and its items can be listed, added and deleted.
func TestConversations(t *testing.T) {
	dir := t.TempDir()
	c, end := withStore(t, dir, ridge.Options{Context: 512})
	type conversation struct {
		ID, Object string
		Metadata   map[string]string
		Deleted    bool
		Error      struct{ Message string }
	}
	post := func(path, body string, want int) (v conversation) {
		t.Helper()
		if status := c.call("POST", path, "application/json", strings.NewReader(body), &v); status != want {
			t.Fatalf("%s %s: %d %+v", path, body, status, v)
		}
		return v
	}
	v := post("/v1/conversations", `{"metadata": {"a": "b"}, "items": [{"role": "user", "content": "Who are you?"}]}`, 200)
	if !strings.HasPrefix(v.ID, "conv_") || v.Object != "conversation" || v.Metadata["a"] != "b" {
		t.Fatalf("%+v", v)
	}
	post("/v1/conversations", ``, 200)
	post("/v1/conversations/"+v.ID+"/items", `{"items": [{"role": "assistant", "content": "A dragon."}]}`, 200)
	const more = `"temperature": 0, "max_output_tokens": 12`
	_, first := c.respondKept(`{"conversation": "` + v.ID + `", "input": "Tell me a story.", ` + more + `}`)
	_, whole := c.respondKept(`{"store": false, "input": [{"role": "user", "content": "Who are you?"}, {"role": "assistant", "content": "A dragon."}, {"role": "user", "content": "Tell me a story."}], ` + more + `}`)
	if first.Status == "" || first.Usage.Input != whole.Usage.Input || first.Output[0].Content[0].Text != whole.Output[0].Content[0].Text {
		t.Errorf("%+v, and the whole at once %+v", first, whole)
	}
	end()
	c, _ = withStore(t, dir, ridge.Options{Context: 512}) // another process
	_, second := c.respondKept(`{"conversation": {"id": "` + v.ID + `"}, "input": "And then?", "background": true, ` + more + `}`)
	c.untilOver(second.ID)
	var list itemList
	c.call("GET", "/v1/conversations/"+v.ID+"/items?order=asc", "", nil, &list)
	var texts []string
	for _, x := range list.Data {
		texts = append(texts, x.Role+": "+x.Content[0].Text)
	}
	if len(texts) != 6 || texts[0] != "user: Who are you?" || texts[1] != "assistant: A dragon." || texts[2] != "user: Tell me a story." || texts[3] != "assistant: "+first.Output[0].Content[0].Text || texts[4] != "user: And then?" {
		t.Fatalf("%q", texts)
	}
	var item struct{ ID, Role string }
	if status := c.call("GET", "/v1/conversations/"+v.ID+"/items/"+list.Data[1].ID, "", nil, &item); status != 200 || item.Role != "assistant" {
		t.Errorf("%d %+v", status, item)
	}
	var left conversation
	if status := c.call("DELETE", "/v1/conversations/"+v.ID+"/items/"+list.Data[1].ID, "", nil, &left); status != 200 || left.ID != v.ID {
		t.Errorf("%d %+v", status, left)
	}
	list = itemList{}
	if c.call("GET", "/v1/conversations/"+v.ID+"/items?limit=2", "", nil, &list); len(list.Data) != 2 || !list.More || list.Data[1].Content[0].Text != "And then?" {
		t.Errorf("%+v", list)
	}
	if v = post("/v1/conversations/"+v.ID, `{"metadata": {"c": "d"}}`, 200); v.Metadata["c"] != "d" {
		t.Errorf("%+v", v)
	}
	for body, why := range map[string]string{
		`"conversation": "conv_none"`:                                        "there is no conversation",
		fmt.Sprintf(`"conversation": %q, "store": false`, v.ID):              "store is false",
		fmt.Sprintf(`"conversation": %q, "previous_response_id": "x"`, v.ID): "both given",
		`"conversation": 3`: "conversation should be",
		`"metadata": {"a": "` + strings.Repeat("x", 513) + `"}`:        "64 and 512 are possible",
		`"reasoning": {"summary": "` + strings.Repeat("x", 513) + `"}`: "auto, concise and detailed",
		fmt.Sprintf(`"previous_response_id": %q`, v.ID):                "there is no response",
	} {
		if status, k := c.respondKept(`{"input": "x", ` + body + `}`); status != 400 || k.Error == nil || !strings.Contains(k.Error.Message, why) {
			t.Errorf("%s: %d %+v", body, status, k.Error)
		}
	}
	for _, body := range []string{`{"items": 3}`, `{"items": [3]}`, `{"metadata": {"` + strings.Repeat("x", 65) + `": ""}}`} {
		if v := post("/v1/conversations", body, 400); v.Error.Message == "" {
			t.Errorf("%s: %+v", body, v)
		}
	}
	if status := c.call("GET", "/v1/responses/"+v.ID, "", nil, &left); status != 404 {
		t.Errorf("a conversation is a response: %d", status)
	}
	if status := c.call("DELETE", "/v1/conversations/"+v.ID, "", nil, &left); status != 200 || !left.Deleted {
		t.Errorf("%d %+v", status, left)
	}
	if status := c.call("GET", "/v1/conversations/"+v.ID, "", nil, &left); status != 404 {
		t.Errorf("deleted: %d", status)
	}
	var k kept
	if status := c.call("GET", "/v1/responses/"+first.ID, "", nil, &k); status != 200 {
		t.Errorf("its response went with it: %d", status)
	}
}
