package server_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
)

// TestThousandAdapters: a folder of a thousand adapters is made known without opening one, in little time and memory; all are listed, and those that
// requests ask for are read then. All but three of them are no adapters, which shows that they are not opened.
func TestThousandAdapters(t *testing.T) {
	const adapters, each = 1000, 2 << 10 // bytes of memory
	dir := t.TempDir()
	good := map[int]bool{0: true, 500: true, 999: true}
	for i := range adapters {
		path := filepath.Join(dir, fmt.Sprintf("adapter-%04d", i))
		if good[i] {
			builtinPEFT.write(t, path, uint64(i))
			continue
		}
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string]string{"adapter_config.json": "{", "adapter_model.safetensors": "no tensors"} {
			if err := os.WriteFile(filepath.Join(path, name), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	h, m := start(t, ridge.Options{Threads: 1, MaxLoRAs: 2, MaxCPULoRAs: 2}, server.Options{})
	heap := func() int64 {
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return int64(s.HeapAlloc)
	}
	before, began := heap(), time.Now()
	names, err := m.AddAdapterDir(dir)
	took := time.Since(began)
	if err != nil || len(names) != adapters || names[7] != "adapter-0007" {
		t.Fatalf("%d names: %v", len(names), err)
	}
	grown := heap() - before
	t.Logf("%d adapters in %v and %d bytes", adapters, took, grown)
	if grown > adapters*each {
		t.Errorf("%d adapters that nobody has asked for take %d bytes of memory", adapters, grown)
	}
	if took > 5*time.Second {
		t.Errorf("listing the folder took %v", took)
	}
	began = time.Now()
	status, body := get(t, h.URL+"/v1/models")
	t.Logf("GET /v1/models: %d bytes in %v", len(body), time.Since(began))
	var list struct {
		Data []struct{ ID, Parent, Root string }
	}
	if err := json.Unmarshal([]byte(body), &list); err != nil || status != 200 {
		t.Fatal(status, err)
	}
	if n := len(list.Data); n != 1+adapters || list.Data[adapters].ID != "adapter-0999" || list.Data[adapters].Parent != m.Name() {
		t.Errorf("%d models, the last %+v", n, list.Data[n-1])
	}
	seen := map[string]bool{}
	for i := range good {
		status, body := post(t, h, "/v1/completions", fmt.Sprintf(`{"prompt": "Once upon a time", "temperature": 0, "max_tokens": 8, "model": "adapter-%04d"}`, i))
		if status != 200 {
			t.Fatalf("adapter %d: %d %s", i, status, body)
		}
		seen[parse(t, body).Choices[0].Text] = true
	}
	if len(seen) != len(good) {
		t.Errorf("three adapters gave %d answers: %v", len(seen), seen)
	}
	inMemory := 0
	for _, a := range m.Adapters() {
		if a.InMemory {
			inMemory++
		}
	}
	if inMemory != 2 {
		t.Errorf("%d adapters are in host memory, and MaxCPULoRAs is 2", inMemory)
	}
	if status, body := post(t, h, "/v1/completions", `{"prompt": "Once", "model": "adapter-0001", "max_tokens": 1}`); status != 400 {
		t.Errorf("a folder that is no adapter: %d %s", status, body)
	}
}
