package route

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/route/kvevents"
)

// TestFollow: by a replica's events a prompt of token ids goes where its beginning is cached, and not any more when that is removed, or batches were missed.
func TestFollow(t *testing.T) {
	c, err := kvevents.ParseConfig(`{"endpoint":"tcp://0.0.0.0:0"}`)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") // for a port that is free
	if err != nil {
		t.Fatal(err)
	}
	c.Endpoint = fmt.Sprintf("tcp://0.0.0.0:%d", l.Addr().(*net.TCPAddr).Port)
	l.Close()
	p, err := kvevents.NewPublisher(*c)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	a, b := newBackend(t, "m"), newBackend(t, "m")
	a.metrics = "vllm:cache_config_info{block_size=\"4\",num_gpu_blocks=\"1000\"} 1\n"
	rt, s := router(t, Options{Policy: named(t, "cache_aware")}, b)
	if err := rt.Add(a.URL + "," + strings.Replace(c.Endpoint, "0.0.0.0", "127.0.0.1", 1)); err != nil {
		t.Fatal(err)
	}
	blocks := func() int { return rt.list()[1].Blocks }
	wait(t, "events are read", func() bool { all := rt.list(); return all[1].Status == "ready" && all[1].Events })
	tokens := make([]int32, 64)
	for i := range tokens {
		tokens[i] = int32(i * 7)
	}
	var hashes []uint64
	for i := range 16 {
		hashes = append(hashes, 100+uint64(i))
	}
	store := kvevents.Event{Hashes: hashes, Tokens: tokens, Block: 4}
	wait(t, "the subscription is there", func() bool { p.Add(store); return blocks() == 16 })
	body := fmt.Sprintf(`{"prompt":%s}`, strings.ReplaceAll(fmt.Sprint(tokens), " ", ","))
	for range 4 {
		if _, from, err := post(t, s.URL+"/v1/completions", body); err != nil || !strings.Contains(from, a.URL) {
			t.Fatalf("%s %v", from, err)
		}
	}
	p.Add(kvevents.Event{Hashes: []uint64{500}, Parent: 77, Tokens: tokens[:4], Block: 4}) // after what was never heard of
	p.Add(kvevents.Event{Hashes: []uint64{501}, Tokens: tokens[4:8], Block: 4, Salt: 3})   // of a tenant
	p.Add(kvevents.Event{Hashes: hashes[8:]})
	wait(t, "half of it is removed", func() bool { return blocks() == 8 })
	p.Add(kvevents.Event{Cleared: true})
	wait(t, "all is removed", func() bool { return blocks() == 0 })
	rt.mu.Lock()
	missed := &following{next: 5}
	missed.forget(rt, rt.replicas[1])
	missed.apply(rt, rt.replicas[1], &store)
	rt.mu.Unlock()
	if blocks() != 16 {
		t.Fatal("nothing is stored")
	}
	p.Add(kvevents.Event{Cleared: true})
	wait(t, "all is removed", func() bool { return blocks() == 0 })
}
