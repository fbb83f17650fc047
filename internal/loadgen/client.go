package loadgen

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"
)

// maxReply bounds what is read of replies that are not streams, in bytes.
const maxReply = 16 << 20

// client talks to the server under test.
type client struct {
	base    string // without /v1
	model   string
	key     string
	chat    bool
	timeout time.Duration
	http    *http.Client
}

func newClient(o *Options) *client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 0, 1<<16 // connections are kept, however many there are
	t.DisableCompression = true
	base := strings.TrimSuffix(strings.TrimSuffix(o.URL, "/"), "/v1")
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	return &client{base: base, model: o.Model, key: o.Key, chat: o.Chat, timeout: o.Timeout, http: &http.Client{Transport: t}}
}

// endpoint is where requests go.
func (c *client) endpoint() string {
	if c.chat {
		return c.base + "/v1/chat/completions"
	}
	return c.base + "/v1/completions"
}

// request makes a request; body is nil for GET.
func (c *client) request(ctx context.Context, url string, body []byte) (*http.Request, error) {
	method, reader := http.MethodGet, io.Reader(nil)
	if body != nil {
		method, reader = http.MethodPost, bytes.NewReader(body)
	}
	r, err := http.NewRequestWithContext(ctx, method, url, reader)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if c.key != "" {
		r.Header.Set("Authorization", "Bearer "+c.key)
	}
	return r, nil
}

// call sends JSON and decodes the reply.
func (c *client) call(ctx context.Context, path string, body, reply any) error {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return err
		}
	}
	r, err := c.request(ctx, c.base+path, data)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return failure(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return refused(resp)
	}
	return json.NewDecoder(io.LimitReader(resp.Body, maxReply)).Decode(reply)
}

// findModel asks the server for the name of its first model, if none was given, and how much that can read and write together: 0 if it
// does not say.
func (c *client) findModel(ctx context.Context) (tokens int, err error) {
	if c.model != "" {
		return 0, nil
	}
	var list struct {
		Data []struct {
			ID      string `json:"id"`
			Context int    `json:"max_model_len"` // as vLLM and Ridge have it
		} `json:"data"`
	}
	if err := c.call(ctx, "/v1/models", nil, &list); err != nil {
		return 0, fmt.Errorf("loadgen: asking %s for its models: %w", c.base, err)
	}
	if len(list.Data) == 0 {
		return 0, fmt.Errorf("loadgen: %s lists no models; name one", c.base)
	}
	c.model = list.Data[0].ID
	return list.Data[0].Context, nil
}

// ask sends a request and reads its answer as it comes.
func (c *client) ask(ctx context.Context, q asked, due time.Time) Record {
	rec := Record{Asked: q.tokens}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	r, err := c.request(ctx, c.endpoint(), q.body)
	if err != nil {
		rec.Err = &Failure{"not sent", err.Error()}
		return rec
	}
	sent := time.Now()
	rec.Late = sent.Sub(due)
	resp, err := c.http.Do(r)
	if err != nil {
		rec.Err = failure(err)
		return rec
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		rec.Err = refused(resp)
		return rec
	}
	if err := rec.read(resp.Body, sent); err != nil {
		rec.Err = failure(err)
	}
	return rec
}

// refused is the error of a reply that is no answer.
func refused(resp *http.Response) *Failure {
	body, err := io.ReadAll(io.LimitReader(resp.Body, 2048))
	if err != nil {
		body = []byte(err.Error())
	}
	return &Failure{fmt.Sprintf("status %d", resp.StatusCode), strings.TrimSpace(string(body))}
}

// failure sorts an error into a few kinds.
func failure(err error) *Failure {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f
	}
	timeout, ok := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, context.Canceled):
		return &Failure{"stopped", "the run was stopped before the answer ended"}
	case errors.Is(err, context.DeadlineExceeded), ok && timeout.Timeout():
		return &Failure{"timed out", err.Error()}
	case errors.Is(err, syscall.ECONNREFUSED):
		return &Failure{"connection refused", err.Error()}
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return &Failure{"connection broken", err.Error()}
	}
	return &Failure{"other", err.Error()}
}
