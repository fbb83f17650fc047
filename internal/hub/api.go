package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// File is a file of a repository.
type File struct {
	Path string // with slashes
	Size int64  // bytes
	Hash string // of its contents, in hex: SHA-256 of large files, Git's hash of others; what its blob is called
}

// sha256Hex is the length of a SHA-256 in hex; Git's hashes have 40 digits.
const sha256Hex = 64

// snapshot is a repository at a commit.
type snapshot struct {
	repo   string
	commit string
	files  []File
}

const (
	maxReply = 64 << 20 // bytes of a list of files
	maxPages = 1000     // of a list
	maxSize  = 1 << 44  // bytes of a file
)

var hexPattern = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// look asks the hub what a revision is now, and what files it has.
func (h *Hub) look(ctx context.Context, r Ref) (*snapshot, error) {
	var info struct {
		SHA string `json:"sha"`
	}
	base := h.Endpoint + "/api/models/" + r.Repo
	if _, err := h.get(ctx, r, base+"/revision/"+url.PathEscape(r.Revision), &info); err != nil {
		return nil, err
	}
	if !hexPattern.MatchString(info.SHA) {
		return nil, fmt.Errorf("hub: %s says that %s is at commit %q, which is not a commit id", h.Endpoint, r.Repo, info.SHA)
	}
	s := &snapshot{repo: r.Repo, commit: info.SHA}
	next := base + "/tree/" + info.SHA + "?recursive=1"
	for page := 0; next != ""; page++ {
		if page == maxPages {
			return nil, fmt.Errorf("hub: the list of the files of %s does not end", r.Repo)
		}
		var entries []treeEntry
		header, err := h.get(ctx, r, next, &entries)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.Type != "file" {
				continue
			}
			f, err := e.file(r.Repo)
			if err != nil {
				return nil, err
			}
			s.files = append(s.files, f)
		}
		if next, err = h.nextPage(next, header); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// treeEntry is a file or folder as the hub lists it.
type treeEntry struct {
	Type string `json:"type"`
	Path string `json:"path"`
	OID  string `json:"oid"`
	Size int64  `json:"size"`
	LFS  *struct {
		OID  string `json:"oid"`
		Size int64  `json:"size"`
	} `json:"lfs"`
}

// file checks an entry: its path and hash become names on this machine.
func (e *treeEntry) file(repo string) (File, error) {
	f := File{e.Path, e.Size, e.OID}
	if e.LFS != nil {
		f.Size, f.Hash = e.LFS.Size, e.LFS.OID
	}
	if !filepath.IsLocal(filepath.FromSlash(f.Path)) || strings.ContainsAny(f.Path, "\\\x00\n") || !hexPattern.MatchString(f.Hash) || f.Size < 0 || f.Size > maxSize {
		return File{}, fmt.Errorf("hub: %s lists a file %q of %d bytes with hash %q, which cannot be right", repo, f.Path, f.Size, f.Hash)
	}
	return f, nil
}

var nextPattern = regexp.MustCompile(`<([^>]+)>;\s*rel="next"`)

// nextPage is the address of the rest of a list, "" at its end. It is the hub's own: the token goes there.
func (h *Hub) nextPage(current string, header http.Header) (string, error) {
	m := nextPattern.FindStringSubmatch(header.Get("Link"))
	if m == nil {
		return "", nil
	}
	base, err := url.Parse(current)
	if err != nil {
		return "", err
	}
	next, err := base.Parse(m[1])
	if err != nil || next.Host != base.Host {
		return "", fmt.Errorf("hub: %s sends the rest of a list to %q, another host", h.Endpoint, m[1])
	}
	return next.String(), nil
}

// get decodes the JSON at an address, trying again what may pass.
func (h *Hub) get(ctx context.Context, r Ref, address string, v any) (http.Header, error) {
	if h.Offline {
		return nil, fmt.Errorf("hub: HF_HUB_OFFLINE is set and %s is not complete in %s; unset it to download", r, h.Dir)
	}
	var header http.Header
	err := h.patiently(ctx, nil, func() error {
		resp, err := h.request(ctx, address, "")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return h.refused(r, "", resp)
		}
		header = resp.Header
		if err := json.NewDecoder(io.LimitReader(resp.Body, maxReply)).Decode(v); err != nil {
			return fmt.Errorf("hub: %s answers about %s with what is not a list of files: %w", h.Endpoint, r.Repo, err)
		}
		return nil
	})
	return header, err
}

// request sends a GET with the token; ranges is the value of the header Range, "" for everything.
func (h *Hub) request(ctx context.Context, address, ranges string) (*http.Response, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("hub: %w; check HF_ENDPOINT", err)
	}
	q.Header.Set("User-Agent", h.Agent)
	if h.Token != "" {
		q.Header.Set("Authorization", "Bearer "+h.Token)
	}
	if ranges != "" {
		q.Header.Set("Range", ranges)
		q.Header.Set("Accept-Encoding", "identity")
	}
	resp, err := h.client().Do(q)
	if err != nil {
		return nil, &passing{err: fmt.Errorf("hub: %w", err)}
	}
	return resp, nil
}

// attempts is how often something is tried that makes no progress.
const attempts = 6

// patiently calls do until it succeeds, fails for good, or has failed too often in a row without moving on. moved, which may be
// nil, reports whether there was progress since it was last asked.
func (h *Hub) patiently(ctx context.Context, moved func() bool, do func() error) error {
	wait := max(h.Retry, time.Millisecond)
	for try := 1; ; try++ {
		err := do()
		if err == nil || ctx.Err() != nil {
			return err
		}
		p, ok := err.(*passing)
		if moved != nil && moved() {
			try, wait = 1, max(h.Retry, time.Millisecond)
		}
		if !ok || try >= attempts {
			return err
		}
		pause := max(wait, p.after)
		wait *= 2
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}
