package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
)

// TestExpertCacheMetrics: /metrics says how many rows through experts on the CPU found theirs on the other device, where there is such a cache.
func TestExpertCacheMetrics(t *testing.T) {
	tokens := map[string]int{}
	for i := range 96 {
		tokens[fmt.Sprintf("t%d", i)] = i
	}
	text, err := json.Marshal(map[string]any{"model": map[string]any{"type": "BPE", "vocab": tokens, "merges": []string{}},
		"pre_tokenizer": map[string]any{"type": "ByteLevel", "add_prefix_space": false}, "decoder": map[string]any{"type": "ByteLevel"}})
	dir := t.TempDir()
	if err := errors.Join(err, os.CopyFS(dir, os.DirFS("../internal/check/testdata/qwen3moe-ofall")), os.WriteFile(filepath.Join(dir, "tokenizer.json"), text, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, cache := range []ridge.ExpertCache{0, 30 << 10} {
		h, _ := startFile(t, dir, ridge.Options{Backend: "ref", CPUExperts: ridge.AllCPUExperts, ExpertCache: cache, Context: 64}, server.Options{Name: "m"})
		complete(t, h, `{"model": "m", "prompt": [5, 6, 7], "max_tokens": 8, "ignore_eos": true}`)
		resp, err := http.Get(h.URL + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"passes", "hits"} {
			if found := regexp.MustCompile(`ridge_expert_cache_` + name + `_total{[^}]*} [1-9]`).Match(body); found != (cache != 0) {
				t.Errorf("a cache of %d bytes: that it has %s is said: %v", cache, name, found)
			}
		}
	}
}
