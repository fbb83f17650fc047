// Package hub fetches models from the Hugging Face hub and keeps them where its own tools do, so that what either has
// downloaded the other finds.
//
//	HF_HOME/hub/models--ORG--REPO/refs/main               the commit that main was when last looked
//	HF_HOME/hub/models--ORG--REPO/snapshots/COMMIT/FILE   links to ../../blobs
//	HF_HOME/hub/models--ORG--REPO/blobs/HASH              contents, by their SHA-256 (large files) or Git hash (others)
//	HF_HOME/hub/.locks/models--ORG--REPO/HASH.lock        held while a blob is downloaded
//
// The layout is described in huggingface_hub's "Understand caching"; the interface in "Hub API Endpoints".
//
//	Ref (ref.go) ─► Repo (api.go) ─► choose (choose.go) ─► fetch (pull.go, download.go, journal.go) ─► verify (verify.go)
package hub

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Hub is a hub and the cache of what was fetched from it.
type Hub struct {
	Endpoint string // such as https://huggingface.co
	Token    string // "": public models only
	Dir      string // the cache: HF_HOME/hub
	Offline  bool   // only what is in the cache
	Agent    string // how to call ourselves
	http     *http.Client
	Retry    time.Duration // before something is tried again, doubled each time; 0: half a second
}

// FromEnvironment is the hub that the environment describes, as it does to Hugging Face's tools: HF_ENDPOINT, HF_TOKEN (or
// the file that `hf auth login` writes), HF_HUB_CACHE or HF_HOME, HF_HUB_OFFLINE.
func FromEnvironment(agent string) (*Hub, error) {
	home := os.Getenv("HF_HOME")
	if home == "" {
		cache := os.Getenv("XDG_CACHE_HOME")
		if cache == "" { // on all systems, as its tools do
			user, err := os.UserHomeDir()
			if err != nil {
				return nil, fmt.Errorf("hub: %w; set HF_HOME to where models are to be kept", err)
			}
			cache = filepath.Join(user, ".cache")
		}
		home = filepath.Join(cache, "huggingface")
	}
	h := &Hub{Endpoint: os.Getenv("HF_ENDPOINT"), Token: os.Getenv("HF_TOKEN"), Dir: os.Getenv("HF_HUB_CACHE"), Agent: agent}
	if h.Endpoint == "" {
		h.Endpoint = "https://huggingface.co"
	}
	h.Endpoint = strings.TrimSuffix(h.Endpoint, "/")
	if h.Dir == "" {
		h.Dir = filepath.Join(home, "hub")
	}
	if h.Token == "" {
		file := os.Getenv("HF_TOKEN_PATH")
		if file == "" {
			file = filepath.Join(home, "token")
		}
		if data, err := os.ReadFile(file); err == nil { // it is optional
			h.Token = strings.TrimSpace(string(data))
		}
	}
	switch strings.ToUpper(os.Getenv("HF_HUB_OFFLINE")) {
	case "1", "ON", "YES", "TRUE":
		h.Offline = true
	}
	return h, nil
}

const (
	headerWait = 30 * time.Second // for the header of a reply
	firstRetry = 500 * time.Millisecond
)

// client is the HTTP client: one that shows its token to the hub alone. The hub sends large files from other hosts, to which
// the request goes on with an address that is permission enough.
func (h *Hub) client() *http.Client {
	if h.http != nil {
		return h.http
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.ResponseHeaderTimeout = headerWait
	t.MaxIdleConnsPerHost = connections
	h.http = &http.Client{Transport: t, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if r.URL.Host != via[0].URL.Host || r.URL.Scheme != via[0].URL.Scheme {
			r.Header.Del("Authorization") // net/http itself keeps it for subdomains
		}
		if len(via) > 10 {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	if h.Retry == 0 {
		h.Retry = firstRetry
	}
	return h.http
}

// repoDir is where a repository's files are kept.
func (h *Hub) repoDir(repo string) string {
	return filepath.Join(h.Dir, "models--"+strings.ReplaceAll(repo, "/", "--"))
}

// lockFile is what is locked while a blob of a repository is downloaded; huggingface_hub locks the same file.
func (h *Hub) lockFile(repo, hash string) string {
	return filepath.Join(h.Dir, ".locks", filepath.Base(h.repoDir(repo)), hash+".lock")
}
