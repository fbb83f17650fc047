package ridge_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ridge-llm/ridge/server/store"
)

// stored is a file that a client has uploaded, or tried to, and the batch that it has made of it.
type stored struct {
	name, content string
	lines         []int  // the call of each line; their custom ids are their numbers
	file, batch   string // ids; "": the server has not said that it took it
	asked         bool   // for the batch
	cancelling    bool   // the client has asked for it
	deleting      bool   // the client has asked for the file's end
	deleted       bool   // the server has said that the file is gone
	answered      int    // lines that the server has said are answered
}

func (x *stored) String() string {
	return fmt.Sprintf("%s (%d lines, id %q, deleting %t, deleted %t; batch %q, asked for %t, cancelling %t)", x.name, len(x.lines), x.file, x.deleting, x.deleted, x.batch, x.asked, x.cancelling)
}

// batchState is a batch as the server shows it.
type batchState struct {
	ID, Status string
	Input      string                                 `json:"input_file_id"`
	Output     string                                 `json:"output_file_id"`
	Errors     string                                 `json:"error_file_id"`
	Counts     struct{ Total, Completed, Failed int } `json:"request_counts"`
	Ended      int64                                  `json:"completed_at"`
	Failed     int64                                  `json:"failed_at"`
	Cancelled  int64                                  `json:"cancelled_at"`
	Expired    int64                                  `json:"expired_at"`
	Metadata   map[string]string
}

// batch uploads a file, makes a batch of it, and perhaps looks at it, cancels it or deletes the file.
func (c *simClient) batch() {
	x := c.newStored()
	var made struct{ ID string }
	upload := form("boundary", x.name, x.content)
	if !c.store(http.MethodPost, "/v1/files", "multipart/form-data; boundary=boundary", upload, &made, func() { x.file = made.ID }) {
		return
	}
	if c.rng.IntN(6) == 0 {
		c.deleteFile(x)
		return
	}
	c.mu.Lock()
	x.asked = true
	c.mu.Unlock()
	request := fmt.Appendf(nil, `{"input_file_id": %q, "endpoint": "/v1/completions", "completion_window": "24h", "metadata": {"name": %q}}`, x.file, x.name)
	if !c.store(http.MethodPost, "/v1/batches", "application/json", request, &made, func() { x.batch = made.ID }) {
		return
	}
	if c.rng.IntN(5) == 0 {
		c.mu.Lock()
		x.cancelling = true
		c.mu.Unlock()
		if !c.store(http.MethodPost, "/v1/batches/"+x.batch+"/cancel", "application/json", nil, &made, func() {}) {
			return
		}
	}
	c.follow(x)
}

// follow looks at a batch now and then while it is worked through, and may have the power fail once a line is answered. Lines that it is told of are
// not to be lost again.
func (c *simClient) follow(x *stored) {
	crashes := !c.last && c.rng.IntN(16) == 0
	for range c.rng.IntN(12) {
		time.Sleep(time.Duration(c.rng.IntN(40)) * time.Millisecond)
		var b batchState
		if !c.store(http.MethodGet, "/v1/batches/"+x.batch, "text/plain", nil, &b, func() { x.answered = max(x.answered, b.Counts.Completed+b.Counts.Failed) }) {
			return
		}
		if crashes && x.answered > 0 {
			c.disk.Crash()
			return
		}
	}
}

// kept looks, at the start of a life, whether the store still has every line that an earlier life has said is answered: one that is not there
// would be computed again. A fault of this life may hinder it.
func (l *life) kept(st *store.Store) {
	for _, x := range l.stored {
		if x.answered == 0 {
			continue
		}
		b, err := st.Batch(x.batch)
		if err != nil {
			l.errorf("the batch of %s is lost: %v", x, err)
			continue
		}
		if b.Status.Over() {
			continue
		}
		j, err := st.Journal(x.batch)
		if err != nil {
			if l.last {
				l.errorf("the journal of %s: %v", x, err)
			}
			continue
		}
		if n := len(j.Done); n < x.answered {
			l.errorf("%d lines are there of %s, of which %d were said to be answered", n, x, x.answered)
		}
		if err := j.Close(); err != nil {
			l.errorf("closing the journal of %s: %v", x, err)
		}
	}
}

func (c *simClient) deleteFile(x *stored) {
	c.mu.Lock()
	x.deleting = true
	c.mu.Unlock()
	var gone struct{ Deleted bool }
	c.store(http.MethodDelete, "/v1/files/"+x.file, "application/json", nil, &gone, func() { x.deleted = gone.Deleted })
}

func (c *simClient) newStored() *stored {
	x := &stored{}
	var plain []int // whole completions
	for i, call := range c.calls {
		if call.path == "/v1/completions" && !strings.Contains(call.body, "stream") {
			plain = append(plain, i)
		}
	}
	var b strings.Builder
	for i := range 1 + c.rng.IntN(6) {
		call := plain[c.rng.IntN(len(plain))]
		x.lines = append(x.lines, call)
		fmt.Fprintf(&b, `{"custom_id": "%d", "method": "POST", "url": "/v1/completions", "body": %s}`+"\n", i, c.calls[call].body)
	}
	x.content = b.String()
	c.mu.Lock()
	defer c.mu.Unlock()
	x.name = fmt.Sprintf("file %d", len(c.stored))
	c.stored = append(c.stored, x)
	return x
}

// store makes a request of the store and notes what it is answered; false when it was not granted.
func (c *simClient) store(method, path, kind string, body []byte, into any, note func()) bool {
	a, ok := c.do(method, path, kind, body, false)
	if !ok {
		return false
	}
	c.requests.Add(1)
	if a.status != http.StatusOK {
		c.refused(path, a, true)
		return false
	}
	if err := json.Unmarshal([]byte(a.body), into); err != nil {
		c.errorf("%s: %v in %q", path, err, a.body)
		return false
	}
	c.mu.Lock()
	note()
	c.mu.Unlock()
	return true
}

// check looks, in a life without faults, whether all files, batches and lines are there that should be, once, with the right contents.
func (l *life) check() {
	c := &simClient{life: l, rng: rand.New(rand.NewPCG(l.seed, uint64(l.lives)<<32+1<<17)), leaves: -1}
	defer func() {
		if c.conn != nil {
			c.conn.Close()
		}
	}()
	list := func() []batchState {
		var page struct{ Data []batchState }
		c.get("/v1/batches?limit=100", &page)
		return page.Data
	}
	batches := l.settled(list)
	var page struct {
		Data []struct{ ID, Filename string }
	}
	c.get("/v1/files", &page)
	for _, x := range l.stored {
		found := 0
		for _, f := range page.Data {
			if f.Filename != x.name {
				continue
			}
			if found++; c.content(f.ID) != x.content {
				l.errorf("%s is %q and was %q", x.name, c.content(f.ID), x.content)
			}
		}
		if found > 1 || found == 0 && x.file != "" && !x.deleting || found > 0 && x.deleted {
			l.errorf("%s is there %d times: %s", x.name, found, x)
		}
		made := slices.DeleteFunc(slices.Clone(batches), func(b batchState) bool { return b.Metadata["name"] != x.name })
		if len(made) > 1 || len(made) == 0 && x.batch != "" {
			l.errorf("there are %d batches of %s", len(made), x)
		}
		for _, b := range made {
			c.checkBatch(x, b)
		}
	}
}

// checkBatch looks at every line of a batch that is over.
func (c *simClient) checkBatch(x *stored, b batchState) {
	seen := map[string]int{}
	done, failed := 0, 0
	for id, n := range map[string]*int{b.Output: &done, b.Errors: &failed} {
		if id == "" {
			continue
		}
		for line := range strings.Lines(c.content(id)) {
			*n++
			var y struct {
				ID       string `json:"custom_id"`
				Response *struct {
					Status int `json:"status_code"`
					Body   json.RawMessage
				}
			}
			if err := json.Unmarshal([]byte(line), &y); err != nil {
				c.errorf("a line of %s is %q: %v", x.name, line, err)
				return
			}
			seen[y.ID]++
			if id != b.Output {
				continue
			}
			i, err := strconv.Atoi(y.ID)
			if err != nil || i < 0 || i >= len(x.lines) || y.Response == nil {
				c.errorf("a line of %s is %q, and the custom ids are 0 to %d", x.name, line, len(x.lines)-1)
				return
			}
			call := x.lines[i]
			if got, err := c.calls[call].parts(string(y.Response.Body)); err != nil || got != c.alone[call] {
				c.errorf("line %s of %s is %s, %v; alone it is %q", y.ID, x.name, line, err, c.alone[call].text)
			}
		}
	}
	for id, n := range seen {
		if n != 1 {
			c.errorf("line %s of %s is there %d times", id, x.name, n)
		}
	}
	complete := len(seen) == len(x.lines)
	switch {
	case b.Status == "completed" && complete:
	case b.Status == "cancelled" && x.cancelling:
	case b.Status == "expired" && complete && c.jumped > 0:
	default:
		c.errorf("the batch of %s is %s with %d of %d lines", x.name, b.Status, len(seen), len(x.lines))
	}
	if b.Counts.Total != len(x.lines) && b.Status != "cancelled" || b.Counts.Completed != done || b.Counts.Failed != failed {
		c.errorf("the batch of %s counts %+v; it has %d lines, %d in its output, %d in its errors", x.name, b.Counts, len(x.lines), done, failed)
	}
}

// get makes a request that nothing can hinder.
func (c *simClient) get(path string, into any) {
	a, ok := c.do(http.MethodGet, path, "text/plain", nil, false)
	if !ok || a.status != http.StatusOK {
		c.errorf("%s: %t, %d %s", path, ok, a.status, a.body)
		return
	}
	if err := json.Unmarshal([]byte(a.body), into); err != nil {
		c.errorf("%s: %v in %q", path, err, a.body)
	}
}

func (c *simClient) content(id string) string {
	a, ok := c.do(http.MethodGet, "/v1/files/"+id+"/content", "text/plain", nil, false)
	if !ok || a.status != http.StatusOK {
		c.errorf("the content of %s: %t, %d %s", id, ok, a.status, a.body)
	}
	return a.body
}
