// Package fakehub is a Hugging Face hub for tests: one model, served as the hub does it, with large files on another host, and with
// the faults that networks have.
package fakehub

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Repo is the model that the hub has, and Commit what its main is.
const (
	Repo   = "tiny/model"
	Commit = "0123456789abcdef0123456789abcdef01234567"
)

// Hub is the fake. Change its fields before the first request.
type Hub struct {
	URL       string
	Files     map[string][]byte
	Any       bool          // every repository is there, and is this one
	Large     int           // files of so many bytes or more come from the other host, after a redirect
	Token     string        // "": none is needed
	Gated     bool          // consent was not given
	Busy      int           // so many requests are answered with 429 first
	Wait      string        // Retry-After of those
	DropEvery int           // connections of large files break after so many bytes; 0: never
	NoRanges  bool          // ranges are ignored
	Damage    bool          // large files arrive with a wrong byte
	Slow      time.Duration // before each 64 KiB of a large file

	mu     sync.Mutex
	hold   int64    // requests of large files wait for ever when so many bytes were sent; 0: never
	served int64    // bytes of large files
	leaks  []string // requests to the other host that showed the token
	asked  int      // requests of large files
}

// New starts a hub that the test ends.
func New(t *testing.T, files map[string][]byte) *Hub {
	t.Helper()
	h := &Hub{Files: files, Large: 1 << 10}
	cdn := httptest.NewServer(http.HandlerFunc(h.cdn))
	t.Cleanup(cdn.Close)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.api(w, r, cdn.URL) }))
	t.Cleanup(api.Close)
	h.URL = api.URL
	return h
}

// Served is how many bytes of large files were sent or are being, in how many requests.
func (h *Hub) Served() (bytes int64, requests int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.served, h.asked
}

// Hold keeps requests of large files waiting, until their client hangs up, from the time that n bytes of large files were sent
// in all; 0 lets them go on.
func (h *Hub) Hold(n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hold = n
}

// Leaks are the requests that showed the token to a host that it is not for.
func (h *Hub) Leaks() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.leaks)
}

// anyRepo finds the repository in a path.
var anyRepo = regexp.MustCompile(`^(|/api/models)/[^/]+/[^/]+/(resolve|revision|tree)`)

// api answers as huggingface.co does.
func (h *Hub) api(w http.ResponseWriter, r *http.Request, cdn string) {
	h.mu.Lock()
	busy := h.Busy > 0
	if busy {
		h.Busy--
	}
	h.mu.Unlock()
	refuse := func(status int, code string) {
		w.Header().Set("X-Error-Code", code)
		http.Error(w, `{"error": "`+code+`"}`, status)
	}
	path := r.URL.Path
	if h.Any {
		path = anyRepo.ReplaceAllString(path, "$1/"+Repo+"/$2")
	}
	file, isFile := strings.CutPrefix(path, "/"+Repo+"/resolve/"+Commit+"/")
	switch {
	case busy:
		w.Header().Set("Retry-After", h.Wait)
		refuse(http.StatusTooManyRequests, "")
	case h.Token != "" && r.Header.Get("Authorization") != "Bearer "+h.Token:
		refuse(http.StatusUnauthorized, "")
	case path == "/api/models/"+Repo+"/revision/main" || path == "/api/models/"+Repo+"/revision/"+Commit:
		fmt.Fprintf(w, `{"id": %q, "sha": %q}`, Repo, Commit)
	case strings.HasPrefix(path, "/api/models/"+Repo+"/revision/"):
		refuse(http.StatusNotFound, "RevisionNotFound")
	case path == "/api/models/"+Repo+"/tree/"+Commit:
		h.tree(w, r)
	case isFile && h.Gated:
		refuse(http.StatusForbidden, "GatedRepo")
	case isFile && h.Files[file] == nil:
		refuse(http.StatusNotFound, "EntryNotFound")
	case isFile && len(h.Files[file]) >= h.Large:
		http.Redirect(w, r, cdn+"/"+file, http.StatusFound)
	case isFile:
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(h.Files[file])))
	default:
		refuse(http.StatusNotFound, "RepoNotFound")
	}
}

// tree lists the files, two a page.
func (h *Hub) tree(w http.ResponseWriter, r *http.Request) {
	var names []string
	for name := range h.Files {
		names = append(names, name)
	}
	slices.Sort(names)
	from := 0
	if _, err := fmt.Sscan(r.URL.Query().Get("cursor"), &from); err != nil || from > len(names) {
		from = 0
	}
	to := min(from+2, len(names))
	list := []map[string]any{{"type": "directory", "path": "folder", "oid": "", "size": 0}}
	for _, name := range names[from:to] {
		data := h.Files[name]
		git := sha1.New()
		fmt.Fprintf(git, "blob %d\x00%s", len(data), data)
		entry := map[string]any{"type": "file", "path": name, "oid": hex.EncodeToString(git.Sum(nil)), "size": len(data)}
		if len(data) >= h.Large {
			sum := sha256.Sum256(data)
			entry["lfs"] = map[string]any{"oid": hex.EncodeToString(sum[:]), "size": len(data), "pointerSize": 130}
		}
		list = append(list, entry)
	}
	if to < len(names) {
		w.Header().Set("Link", fmt.Sprintf(`<%s%s?recursive=1&cursor=%d>; rel="next"`, h.URL, r.URL.Path, to))
	}
	_ = json.NewEncoder(w).Encode(list)
}

// cdn is the other host.
func (h *Hub) cdn(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.asked++
	if r.Header.Get("Authorization") != "" {
		h.leaks = append(h.leaks, r.URL.Path)
	}
	h.mu.Unlock()
	data := h.Files[strings.TrimPrefix(r.URL.Path, "/")]
	if h.Damage {
		data = slices.Clone(data)
		data[len(data)/2] ^= 1
	}
	from, to := 0, len(data)
	if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &from, &to); err == nil && !h.NoRanges {
		to++
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to-1, len(data)))
		w.Header().Set("Content-Length", fmt.Sprint(to-from))
		w.WriteHeader(http.StatusPartialContent)
	} else {
		from, to = 0, len(data)
		w.Header().Set("Content-Length", fmt.Sprint(to))
	}
	sent := 0
	for from < to {
		n := min(64<<10, to-from)
		if h.DropEvery > 0 && sent+n > h.DropEvery {
			panic(http.ErrAbortHandler)
		}
		h.mu.Lock()
		held := h.hold > 0 && h.served+int64(n) > h.hold
		if !held {
			h.served += int64(n)
		}
		h.mu.Unlock()
		if held {
			<-r.Context().Done()
			return
		}
		time.Sleep(h.Slow)
		if _, err := w.Write(data[from : from+n]); err != nil {
			return
		}
		w.(http.Flusher).Flush()
		from, sent = from+n, sent+n
	}
}
