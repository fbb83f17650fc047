package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"
)

// client is one of the clients that call at once.
type client struct {
	*soak
	ctx context.Context
	rng *rand.Rand
}

// Two clients have batches worked through and call nothing else. A server does batches while no request waits, so all others pause now and then.
const (
	batchers = 2
	busy     = 4 * time.Minute
	pause    = 20 * time.Second
)

// client makes one call after another until the context ends.
func (s *soak) client(ctx context.Context, i int) {
	c := &client{s, ctx, rand.New(rand.NewPCG(s.seed, uint64(i)))}
	total := 0
	for _, k := range calls {
		total += k.weight
	}
	began := time.Now()
	for ctx.Err() == nil {
		if i < batchers {
			c.one(call{name: "batch", do: (*client).batch})
			continue
		}
		if time.Since(began)%(busy+pause) > busy {
			c.sleep(100 * time.Millisecond)
			continue
		}
		n := c.rng.IntN(total)
		for _, k := range calls {
			if n -= k.weight; n < 0 {
				c.one(k)
				break
			}
		}
	}
}

func (c *client) sleep(d time.Duration) {
	select {
	case <-time.After(d):
	case <-c.ctx.Done():
	}
}

// errLeft is the end of a call whose client left on purpose.
var errLeft = errors.New("left")

func (c *client) one(k call) {
	var err error
	if k.do != nil {
		err = k.do(c)
	} else {
		err = c.call(k)
	}
	switch {
	case err == nil:
		c.count(k.name)
	case c.ctx.Err() != nil: // the soak is over
	case errors.Is(err, errLeft):
		c.count(k.name + ", left")
	default:
		c.count(k.name + ", failed")
		c.failed(k.name + ": " + err.Error())
	}
}

// call makes a call of one request, as the client's luck has it: streamed or not, read slowly or not, left early or not.
func (c *client) call(k call) error {
	body := k.body(c)
	streamed := k.stream != nil && c.rng.IntN(2) == 0
	if k.stream != nil {
		body["stream"] = streamed
	}
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.ctx, 10*time.Minute)
	defer cancel()
	leaves := -1
	switch c.rng.IntN(12) {
	case 0: // after a time
		after := time.Duration(c.rng.IntN(3000)) * time.Millisecond
		timer := time.AfterFunc(after, cancel)
		defer timer.Stop()
		leaves = 1 << 30
	case 1: // after some bytes
		leaves = c.rng.IntN(4000)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+k.path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return left(leaves, err)
	}
	defer response.Body.Close()
	answer, err := c.read(response.Body, leaves)
	if err != nil {
		return left(leaves, err)
	}
	if want := max(k.status, http.StatusOK); response.StatusCode != want {
		return fmt.Errorf("status %d, not %d: %.300s", response.StatusCode, want, answer)
	}
	if streamed {
		return k.stream(string(answer))
	}
	if !json.Valid(answer) {
		return fmt.Errorf("the answer is no JSON: %.300s", answer)
	}
	if k.check != nil {
		return k.check(body, answer)
	}
	return nil
}

// left is what an error means to a client that leaves; below 0 it does not.
func left(leaves int, err error) error {
	if leaves >= 0 {
		return errLeft
	}
	return err
}

// read reads an answer, one in sixteen times slowly, and leaves after some bytes, unless it is below 0.
func (c *client) read(r io.Reader, leaves int) ([]byte, error) {
	if leaves >= 0 {
		if _, err := io.CopyN(io.Discard, r, int64(leaves)); err != nil && err != io.EOF {
			return nil, err
		}
		return nil, errLeft
	}
	if c.rng.IntN(16) > 0 {
		return io.ReadAll(r)
	}
	var all []byte
	piece := make([]byte, 512)
	for {
		n, err := r.Read(piece)
		all = append(all, piece[:n]...)
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// words are some of the words of prompts.
var words = strings.Fields(`the of and to in a is that it was for on are as with his they at be this from have or by one had not but
what all were when we there can an your which their said if do will each about how up out them then she many some so these would
other into has more her two like him see time could no make than first been its who now people my made over did down only way`)

// prompt is text of some words; a third of the prompts begin alike.
func (c *client) prompt(most int) string {
	var b strings.Builder
	if c.rng.IntN(3) == 0 {
		b.WriteString(strings.Repeat("Once upon a time there was a fox in the forest. ", 1+c.rng.IntN(12)))
	}
	for range 1 + c.rng.IntN(most) {
		b.WriteString(words[c.rng.IntN(len(words))] + " ")
	}
	return b.String()
}

// data are the contents of a stream's data lines, which have to be JSON or the end.
func data(answer string) (events []string, err error) {
	if !strings.HasSuffix(answer, "\n\n") {
		return nil, fmt.Errorf("the stream is cut: ...%s", answer[max(0, len(answer)-200):])
	}
	for line := range strings.Lines(answer) {
		d, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		d = strings.TrimSpace(d)
		if d != "[DONE]" && !json.Valid([]byte(d)) {
			return nil, fmt.Errorf("an event is no JSON: %.300s", d)
		}
		events = append(events, d)
	}
	if len(events) == 0 || slices.ContainsFunc(events, func(d string) bool { return strings.Contains(d, `"error":{`) }) {
		return nil, fmt.Errorf("the stream has no events, or an error: ...%s", answer[max(0, len(answer)-300):])
	}
	return events, nil
}

// done checks a stream that ends with [DONE].
func done(answer string) error {
	events, err := data(answer)
	if err == nil && events[len(events)-1] != "[DONE]" {
		err = fmt.Errorf("the last event is %.300s", events[len(events)-1])
	}
	return err
}

// ends checks a stream whose last event has this in it.
func ends(with string) func(string) error {
	return func(answer string) error {
		events, err := data(answer)
		if err == nil && !strings.Contains(events[len(events)-1], with) {
			err = fmt.Errorf("the last event is %.300s", events[len(events)-1])
		}
		return err
	}
}

// lines checks a stream of JSON lines, of which the last says that it is the last.
func lines(answer string) error {
	all := strings.Split(strings.TrimSuffix(answer, "\n"), "\n")
	for _, line := range all {
		if !json.Valid([]byte(line)) || strings.Contains(line, `"error":`) {
			return fmt.Errorf("a line is %.300s", line)
		}
	}
	if last := all[len(all)-1]; !strings.Contains(last, `"done":true`) {
		return fmt.Errorf("the last line is %.300s", last)
	}
	return nil
}
