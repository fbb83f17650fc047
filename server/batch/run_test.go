package batch

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/internal/background"
	"github.com/ridge-llm/ridge/server/access"
	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/store"
)

// growing answers one request at once until the first has come, as a server of several models none of which is loaded, and eight from then on.
type growing struct{ begun atomic.Bool }

func (g *growing) Parallel() int {
	if g.begun.Load() {
		return 8
	}
	return 1
}

func (g *growing) Waiting() int { return 0 }

// TestGrows: once a batch's first line has had a model loaded, as many lines run side by side as the model has room for.
func TestGrows(t *testing.T) {
	st, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	var input strings.Builder
	for i := range 9 {
		fmt.Fprintf(&input, `{"custom_id": "%d", "method": "POST", "url": "/v1/completions", "body": {}}`+"\n", i)
	}
	upload, err := st.Receive("", strings.NewReader(input.String()), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	f, err := upload.Keep("input.jsonl", "batch", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	load := &growing{}
	var mu sync.Mutex
	running, most := 0, 0
	together := make(chan struct{}) // closed once four run
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		first := load.begun.CompareAndSwap(false, true)
		mu.Lock()
		if running++; running > most {
			if most = running; most == 4 {
				close(together)
			}
		}
		mu.Unlock()
		if !first {
			select {
			case <-together:
			case <-time.After(20 * time.Second):
			}
		}
		mu.Lock()
		running--
		mu.Unlock()
		api.WriteJSON(w, http.StatusOK, map[string]string{})
	})
	log := slog.New(slog.DiscardHandler)
	a := New(load, &api.Responder{Log: log, Lane: background.NewLane(1)}, st, access.NewRing(nil, false, time.Now), handler)
	b, err := st.NewBatch(store.Batch{Input: f.ID, Endpoint: "/v1/completions", Window: "1h", Status: store.Validating, Created: time.Now().Unix(), Expires: time.Now().Add(time.Hour).Unix()})
	if err != nil {
		t.Fatal(err)
	}
	a.Start()
	defer a.Close()
	for end := time.Now().Add(time.Minute); !b.Status.Over() && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if b, err = st.Batch(b.ID); err != nil {
			t.Fatal(err)
		}
	}
	if b.Counts.Completed != 9 || most < 4 || most > 4+1 {
		t.Errorf("%+v; %d ran side by side, want 4 and the first", b, most)
	}
}
