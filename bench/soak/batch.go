package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"time"
)

// batch uploads a file, has it worked through, checks that every line was answered once, and deletes all of it.
func (c *client) batch() error {
	n := 1 + c.rng.IntN(12)
	var input strings.Builder
	for i := range n {
		line, err := json.Marshal(object{"custom_id": fmt.Sprint(i), "method": "POST", "url": "/v1/completions", "body": object{"prompt": c.prompt(40), "max_tokens": 8}})
		if err != nil {
			return err
		}
		input.Write(append(line, '\n'))
	}
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	if err := w.WriteField("purpose", "batch"); err != nil {
		return err
	}
	part, err := w.CreateFormFile("file", "lines.jsonl")
	if err != nil {
		return err
	}
	io.WriteString(part, input.String())
	w.Close()
	var file, b struct {
		ID, Status string
		Output     string                                 `json:"output_file_id"`
		Counts     struct{ Total, Completed, Failed int } `json:"request_counts"`
	}
	if err := c.ask(http.MethodPost, "/v1/files", w.FormDataContentType(), form.Bytes(), &file); err != nil {
		return err
	}
	request := fmt.Appendf(nil, `{"input_file_id": %q, "endpoint": "/v1/completions", "completion_window": "24h"}`, file.ID)
	if err := c.ask(http.MethodPost, "/v1/batches", "application/json", request, &b); err != nil {
		return err
	}
	if c.rng.IntN(6) == 0 {
		if err := c.ask(http.MethodPost, "/v1/batches/"+b.ID+"/cancel", "application/json", nil, &b); err != nil {
			return err
		}
	}
	for b.Status != "completed" && b.Status != "cancelled" {
		if b.Status == "failed" || b.Status == "expired" {
			return fmt.Errorf("the batch %s", b.Status)
		}
		select {
		case <-c.ctx.Done():
			return c.ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
		if err := c.ask(http.MethodGet, "/v1/batches/"+b.ID, "", nil, &b); err != nil {
			return err
		}
	}
	if b.Status == "completed" {
		if b.Counts.Completed != n {
			return fmt.Errorf("of %d lines %d were answered and %d failed", n, b.Counts.Completed, b.Counts.Failed)
		}
		if err := c.checkOutput(b.Output, n); err != nil {
			return err
		}
	}
	for _, id := range []string{file.ID, b.Output} {
		if id == "" {
			continue
		}
		if err := c.ask(http.MethodDelete, "/v1/files/"+id, "", nil, nil); err != nil {
			return err
		}
	}
	return nil
}

// checkOutput checks that an output has each of n lines once.
func (c *client) checkOutput(id string, n int) error {
	var text []byte
	if err := c.ask(http.MethodGet, "/v1/files/"+id+"/content", "", nil, &text); err != nil {
		return err
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		var l struct {
			ID string `json:"custom_id"`
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil || seen[l.ID] {
			return fmt.Errorf("a line of the output is broken or there twice: %.300s", line)
		}
		seen[l.ID] = true
	}
	if len(seen) != n {
		return fmt.Errorf("the output has %d lines of %d", len(seen), n)
	}
	return nil
}

// ask makes a request and decodes its answer: JSON, or the bytes as they are.
func (c *client) ask(method, path, kind string, body []byte, into any) error {
	r, err := http.NewRequestWithContext(c.ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", kind)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: status %d: %.300s", method, path, response.StatusCode, answer)
	}
	switch to := into.(type) {
	case nil:
		return nil
	case *[]byte:
		*to = answer
		return nil
	}
	return json.Unmarshal(answer, into)
}
