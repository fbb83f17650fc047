package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/internal/testkit/leaks"
	"github.com/ridge-llm/ridge/server"
	"github.com/ridge-llm/ridge/server/store"
)

// client calls a server that keeps files.
type client struct {
	t   *testing.T
	url string
}

// withStore is a server with a store in dir; end closes both, as the end of a process would.
func withStore(t *testing.T, dir string, o ridge.Options) (c *client, end func()) {
	t.Helper()
	leaks.Check(t)
	if o.Threads == 0 {
		o.Threads = 1
	}
	m, err := ridge.Load("", o)
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(m, server.Options{Store: st})
	h := httptest.NewServer(s)
	ended := false
	end = func() {
		if !ended {
			ended = true
			h.Close()
			s.Close()
			leaks.Pages(t, m)
			m.Close()
			st.Close()
		}
	}
	t.Cleanup(end)
	return &client{t, h.URL}, end
}

// call sends a request and reads the JSON answer into v.
func (c *client) call(method, path, contentType string, body io.Reader, v any) int {
	c.t.Helper()
	r, err := http.NewRequest(method, c.url+path, body)
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Content-Type", contentType)
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer a.Body.Close()
	data, err := io.ReadAll(a.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	if text, ok := v.(*string); ok {
		*text = string(data)
	} else if err := json.Unmarshal(data, v); err != nil {
		c.t.Fatalf("%s %s: %d %v in %s", method, path, a.StatusCode, err, data)
	}
	return a.StatusCode
}

func (c *client) get(path string) (text string) {
	c.t.Helper()
	c.call("GET", path, "", nil, &text)
	return text
}

// upload keeps a file and returns the status and answer.
func (c *client) upload(purpose, content string) (status int, f store.File, text string) {
	c.t.Helper()
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	w.WriteField("purpose", purpose)
	part, _ := w.CreateFormFile("file", "input.jsonl")
	io.WriteString(part, content)
	w.Close()
	status = c.call("POST", "/v1/files", w.FormDataContentType(), &form, &text)
	json.Unmarshal([]byte(text), &f)
	return status, f, text
}

// begin uploads an input and starts a batch of it.
func (c *client) begin(endpoint, window, input string) (b store.Batch) {
	c.t.Helper()
	_, f, text := c.upload("batch", input)
	if f.ID == "" {
		c.t.Fatal(text)
	}
	body := fmt.Sprintf(`{"input_file_id": %q, "endpoint": %q, "completion_window": %q, "metadata": {"a": "b"}}`, f.ID, endpoint, window)
	if status := c.call("POST", "/v1/batches", "application/json", strings.NewReader(body), &b); status != 200 {
		c.t.Fatalf("%d for %s", status, body)
	}
	return b
}

// until waits for a batch to be as wanted.
func (c *client) until(id string, what string, wanted func(store.Batch) bool) (b store.Batch) {
	c.t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(2 * time.Millisecond) {
		if c.call("GET", "/v1/batches/"+id, "", nil, &b); wanted(b) {
			return b
		}
		if time.Now().After(end) {
			c.t.Fatalf("the batch is never %s: %+v", what, b)
		}
	}
}

func over(b store.Batch) bool { return b.Status.Over() }

// outcome is a line of an output or error file.
type outcome struct {
	CustomID string `json:"custom_id"`
	Response *struct {
		Status int `json:"status_code"`
		Body   answer
	}
	Error *struct{ Code string }
}

// outcomes reads a file by custom id. None may be there twice.
func (c *client) outcomes(file string) map[string]outcome {
	c.t.Helper()
	all := map[string]outcome{}
	if file == "" {
		return all
	}
	for line := range strings.Lines(c.get("/v1/files/" + file + "/content")) {
		var o outcome
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			c.t.Fatalf("%v in %s", err, line)
		}
		if _, twice := all[o.CustomID]; twice {
			c.t.Errorf("%s is there twice", o.CustomID)
		}
		all[o.CustomID] = o
	}
	return all
}

func batchInput(n, tokens int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"custom_id": "line-%d", "method": "POST", "url": "/v1/completions", "body": {"prompt": "Once upon a time %d", "temperature": 0, "ignore_eos": true, "max_tokens": %d}}`+"\n", i, i, tokens)
	}
	return b.String()
}

// TestBatch: lines are answered as single requests are, refused ones go to the error file, and all are counted.
func TestBatch(t *testing.T) {
	c, _ := withStore(t, t.TempDir(), ridge.Options{})
	b := c.begin("/v1/completions", "24h", batchInput(6, 5)+"\n"+`{"custom_id": "bad", "url": "/v1/completions", "body": {"prompt": "x", "temperature": -1}}`+"\n"+
		`{"custom_id": "stream", "url": "/v1/completions", "body": {"prompt": "x", "stream": true}}`)
	if b.Status != store.Validating || b.Object != "batch" || b.Expires-b.Created != 24*3600 {
		t.Errorf("%+v", b)
	}
	b = c.until(b.ID, "over", over)
	if b.Status != store.Completed || b.Counts != (store.Counts{Total: 8, Completed: 6, Failed: 2}) || b.Metadata["a"] != "b" || b.Completed == 0 || b.Errors != nil {
		t.Fatalf("%+v", b)
	}
	var single string
	c.call("POST", "/v1/completions", "application/json", strings.NewReader(`{"prompt": "Once upon a time 3", "temperature": 0, "ignore_eos": true, "max_tokens": 5}`), &single)
	good, bad := c.outcomes(b.Output), c.outcomes(b.ErrorFile)
	if o := good["line-3"]; len(good) != 6 || o.Response.Status != 200 || o.Response.Body.Choices[0].Text != parse(t, single).Choices[0].Text {
		t.Errorf("%d lines, line-3 %+v; by itself %s", len(good), good["line-3"].Response, single)
	}
	if o := bad["bad"]; len(bad) != 2 || o.Response.Status != 400 || !strings.Contains(o.Response.Body.Error.Message, "temperature is -1") {
		t.Errorf("%+v", bad)
	}

	b = c.begin("/v1/embeddings", "24h", `{"custom_id": "e", "method": "POST", "url": "/v1/embeddings", "body": {"input": "x"}}`)
	if b = c.until(b.ID, "over", over); b.Counts.Completed != 1 || !strings.Contains(c.get("/v1/files/"+b.Output+"/content"), `"embedding":[`) {
		t.Errorf("%+v", b)
	}
	if list := c.get("/v1/batches?limit=1"); !strings.Contains(list, `"has_more":true`) || !strings.Contains(list, b.ID) {
		t.Error(list)
	}
	if list := c.get("/v1/files?purpose=batch_output&order=asc"); strings.Count(list, `"id"`) != 3 {
		t.Error(list)
	}
	var deleted string
	if status := c.call("DELETE", "/v1/files/"+b.Output, "", nil, &deleted); status != 200 || !strings.Contains(deleted, `"deleted":true`) {
		t.Errorf("%d %s", status, deleted)
	}
	if text := c.get("/v1/files/" + b.Output); !strings.Contains(text, "there is no file") {
		t.Error(text)
	}
}

// TestBatchEnds: a batch that is wrong, cancelled, or out of time says so; what was finished stays.
func TestBatchEnds(t *testing.T) {
	c, _ := withStore(t, t.TempDir(), ridge.Options{})
	wrong := `{"custom_id": "a", "url": "/v1/completions", "body": {}}` + "\n{]\n" + `{"custom_id": "a", "url": "/v1/completions", "body": {}}` + "\n" +
		`{"url": "/v1/completions", "body": {}}` + "\n" + `{"custom_id": "b", "url": "/v1/embeddings", "body": {}}` + "\n" + `{"custom_id": "c", "url": "/v1/completions", "body": 7}`
	b := c.begin("/v1/completions", "24h", wrong)
	b = c.until(b.ID, "over", over)
	var codes []string
	for _, e := range b.Errors.Data {
		codes = append(codes, fmt.Sprint(e.Line, " ", e.Code))
	}
	if got := strings.Join(codes, ", "); b.Status != store.Failed || got != "2 invalid_json_line, 3 duplicate_custom_id, 4 missing_custom_id, 5 invalid_url, 6 missing_body" {
		t.Errorf("%s: %s", b.Status, got)
	}
	if b = c.until(c.begin("/v1/completions", "24h", "\n").ID, "over", over); b.Status != store.Failed || b.Errors.Data[0].Code != "empty_file" {
		t.Errorf("%+v", b)
	}

	b = c.begin("/v1/completions", "24h", batchInput(1000, 30))
	c.until(b.ID, "under way", func(b store.Batch) bool { return b.Counts.Completed > 0 })
	var held string
	if status := c.call("DELETE", "/v1/files/"+b.Input, "", nil, &held); status != 409 {
		t.Errorf("%d %s", status, held)
	}
	c.call("POST", "/v1/batches/"+b.ID+"/cancel", "", nil, &b)
	if b.Status != store.Cancelling {
		t.Errorf("%+v", b)
	}
	b = c.until(b.ID, "over", over)
	if n := len(c.outcomes(b.Output)); b.Status != store.Cancelled || n == 0 || n >= 1000 || n != b.Counts.Completed {
		t.Errorf("%s with %d of %+v", b.Status, n, b.Counts)
	}

	b = c.begin("/v1/completions", "2s", batchInput(2000, 30))
	b = c.until(b.ID, "over", over)
	good, late := c.outcomes(b.Output), c.outcomes(b.ErrorFile)
	if b.Status != store.Expired || len(late) == 0 || len(good)+len(late) != 2000 { // on a busy machine none is finished in time
		t.Fatalf("%s with %d and %d lines", b.Status, len(good), len(late))
	}
	for _, o := range late {
		if o.Error == nil || o.Error.Code != "batch_expired" {
			t.Fatalf("%+v", o)
		}
	}
}

// TestBatchStandsBack: while requests wait, no line is begun; the requests do not wait for the batch.
func TestBatchStandsBack(t *testing.T) {
	c, _ := withStore(t, t.TempDir(), ridge.Options{Parallel: 2})
	b := c.begin("/v1/completions", "24h", batchInput(200, 40))
	c.until(b.ID, "under way", func(b store.Batch) bool { return b.Counts.Completed > 0 })
	before := c.until(b.ID, "there", func(store.Batch) bool { return true }).Counts.Completed
	answers := make(chan string, 6)
	for range cap(answers) {
		go func() {
			r, err := http.Post(c.url+"/v1/completions", "application/json", strings.NewReader(`{"prompt": "Twice", "max_tokens": 40, "ignore_eos": true}`))
			if err != nil {
				answers <- err.Error()
				return
			}
			defer r.Body.Close()
			data, _ := io.ReadAll(r.Body)
			answers <- string(data)
		}()
	}
	for range cap(answers) {
		if text := <-answers; !strings.Contains(text, `"completion_tokens":40`) {
			t.Error(text)
		}
	}
	// Two places, one of them the batch's at most: six answers in a row of one or two leave it few lines.
	if during := c.until(b.ID, "there", func(store.Batch) bool { return true }).Counts.Completed - before; during > 6 {
		t.Errorf("%d lines were finished while six requests of the same length waited", during)
	}
}

func TestFileRefusals(t *testing.T) {
	c, _ := withStore(t, t.TempDir(), ridge.Options{})
	if status, _, text := c.upload("fine-tune", "x"); status != 400 || !strings.Contains(text, `purpose is \"fine-tune\"`) {
		t.Errorf("%d %s", status, text)
	}
	_, f, _ := c.upload("batch", "x")
	for _, x := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"POST", "/v1/files", "{}", 400, "multipart/form-data"},
		{"GET", "/v1/files/none", "", 404, "there is no file"},
		{"GET", "/v1/files/..%2Flock/content", "", 404, "there is no file"},
		{"GET", "/v1/files?limit=0", "", 400, "limit is"},
		{"GET", "/v1/files?order=up", "", 400, "order is"},
		{"GET", "/v1/batches/none", "", 404, "there is no batch"},
		{"POST", "/v1/batches/none/cancel", "", 404, "there is no batch"},
		{"POST", "/v1/batches", `{"input_file_id": "none"}`, 400, "there is no file"},
		{"POST", "/v1/batches", `{"input_file_id": "` + f.ID + `", "endpoint": "/v1/files"}`, 400, "endpoint is"},
		{"POST", "/v1/batches", `{"input_file_id": "` + f.ID + `", "endpoint": "/v1/completions", "completion_window": "soon"}`, 400, "completion_window is"},
		{"POST", "/v1/batches", `{"input_file_id": "` + f.ID + `", "output_expires_after": {}}`, 400, "output_expires_after"},
	} {
		var text string
		if status := c.call(x.method, x.path, "application/json", strings.NewReader(x.body), &text); status != x.status || !strings.Contains(text, x.want) {
			t.Errorf("%s %s: %d %s", x.method, x.path, status, text)
		}
	}
	h, _ := start(t, ridge.Options{}, server.Options{})
	if status, text := post(t, h, "/v1/batches", `{}`); status != 404 || !strings.Contains(text, "--data-dir") {
		t.Errorf("without a store: %d %s", status, text)
	}
}
