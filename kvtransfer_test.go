package ridge_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ridge-llm/ridge"
)

const transferSecret = "the secret of a test"

// pair is a prefill and a decode server of one model.
type pair struct{ prefill, decode *ridge.Model }

func newPair(t *testing.T, path string, o ridge.Options, lease time.Duration) pair {
	t.Helper()
	one := o
	one.KVTransfer = ridge.KVTransfer{Secret: transferSecret, Listen: "127.0.0.1:0", Lease: lease}
	other := o
	other.KVTransfer = ridge.KVTransfer{Secret: transferSecret}
	return pair{loadFrom(t, path, one), loadFrom(t, path, other)}
}

// ask is an answer and how it ended.
func ask(t *testing.T, m *ridge.Model, prompt []int32, tokens int, remote *ridge.RemoteKV) (ids []int32, logs []float64, f *ridge.Finish) {
	t.Helper()
	p := ridge.Greedy()
	p.MaxTokens, p.IgnoreEnd, p.Sampling.Logprobs, p.Remote, p.Tenant = tokens, true, true, remote, "a"
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	pieces, err := m.GenerateMany(ctx, prompt, []ridge.Params{p})
	if err != nil {
		t.Fatal(err)
	}
	for piece, err := range pieces[0] {
		if err != nil {
			t.Fatal(err)
		}
		if piece.Token != nil {
			ids, logs = append(ids, piece.Token.Token), append(logs, float64(piece.Token.Logprob))
		}
		if piece.Finish != nil {
			f = piece.Finish
		}
	}
	return ids, logs, f
}

// TestDisaggregation: a decode server goes on from what a prefill server has computed, with the answer of one server to the last bit of its log-probabilities: with full layers, windows,
// states of recurrent layers, and several devices of a process. What the decode server has itself is not sent.
func TestDisaggregation(t *testing.T) {
	for _, c := range []struct {
		model  string
		layout ridge.Layout
	}{{"llama-default", ridge.Layout{}}, {"llama-default", ridge.Layout{Tensor: 2}}, {"gemma3-pattern", ridge.Layout{}}, {"qwen3.5-wide", ridge.Layout{}}, {"kimi-linear", ridge.Layout{}}} {
		path := withTokenizer(t, filepath.Join("internal/check/testdata", c.model))
		o := ridge.Options{Context: 160, StepTokens: 32, Parallel: 2, Deterministic: true, Threads: 1, Layout: c.layout}
		plain, both := loadFrom(t, path, o), newPair(t, path, o, 0)
		for i, prompt := range manyPrompts(4, 100) {
			want, logs, _ := ask(t, plain, prompt, 12, nil)
			_, _, f := ask(t, both.prefill, prompt, 1, &ridge.RemoteKV{DoRemoteDecode: true})
			if f.Remote == nil || !f.Remote.DoRemotePrefill || f.Remote.RemoteHost == nil {
				t.Fatalf("%s: the prefill server says %+v", c.model, f.Remote)
			}
			got, gotLogs, f := ask(t, both.decode, prompt, 12, f.Remote)
			if !slices.Equal(got, want) || !slices.Equal(gotLogs, logs) {
				t.Errorf("%s: prompt %d has another answer where two servers make it", c.model, i)
			}
			if i%2 == 0 && f.Kept[ridge.KeptAtPeer] < 64 {
				t.Errorf("%s: of prompt %d %v tokens were kept, and the last are what the other server has sent", c.model, i, f.Kept)
			}
			if maps, err := os.ReadFile("/proc/self/maps"); err == nil && !regexp.MustCompile(`(?m) r--s .*memfd:ridge-pages`).Match(maps) {
				t.Errorf("%s: the decode server has not mapped the prefill server's memory", c.model)
			}
		}
		x, y := both.prefill.Stats().Kept, both.decode.Stats().Kept
		for until := time.Now().Add(10 * time.Second); x.Written[ridge.KeptAtPeer] != y.Read[ridge.KeptAtPeer] && time.Now().Before(until); x, y = both.prefill.Stats().Kept, both.decode.Stats().Kept {
			time.Sleep(time.Millisecond) // what was sent last is counted once it is gone; the prefill server makes no step for that
		}
		if x.Expired != 0 || x.Written[ridge.KeptAtPeer] == 0 || x.Written[ridge.KeptAtPeer] != y.Read[ridge.KeptAtPeer] {
			t.Errorf("%s: %d bytes were sent, %d came, and %d leases ended by themselves", c.model, x.Written[ridge.KeptAtPeer], y.Read[ridge.KeptAtPeer], x.Expired)
		}
	}
}

// TestDisaggregationAhead: a decode server that is asked while the prompt is being computed waits for it, takes pages and states over, and gives the answer of one server; where the prompt's request is
// given up it computes what is missing.
func TestDisaggregationAhead(t *testing.T) {
	for _, model := range []string{"llama-default", "gemma3-pattern", "qwen3.5-wide"} {
		path := withTokenizer(t, filepath.Join("internal/check/testdata", model))
		o := ridge.Options{Context: 160, StepTokens: 18, Parallel: 2, Deterministic: true, Threads: 1}
		plain, both := loadFrom(t, path, o), newPair(t, path, o, 0)
		prompts := manyPrompts(4, 120)
		_, _, f := ask(t, both.prefill, prompts[0][:40], 1, &ridge.RemoteKV{DoRemoteDecode: true}) // says where it is asked
		for i, prompt := range prompts {
			want, logs, _ := ask(t, plain, prompt, 12, nil)
			id := "prompt " + strconv.Itoa(i)
			remote := *f.Remote
			remote.RemoteRequestID = &id
			var asked sync.WaitGroup
			asked.Go(func() {
				time.Sleep(time.Duration(i) * 3 * time.Millisecond) // the replica comes first, and waits for the prompt to be begun
				_, _, g := ask(t, both.prefill, prompt, 1, &ridge.RemoteKV{DoRemoteDecode: true, RemoteRequestID: &id})
				if g.Remote == nil || *g.Remote.RemoteRequestID != id {
					t.Errorf("%s: the prefill server has another name for it: %+v", model, g.Remote)
				}
			})
			got, gotLogs, h := ask(t, both.decode, prompt, 12, &remote)
			asked.Wait()
			if !slices.Equal(got, want) || !slices.Equal(gotLogs, logs) {
				t.Errorf("%s: prompt %d has another answer where two servers make it at once", model, i)
			}
			if i%2 == 0 && h.Kept[ridge.KeptAtPeer] < 96 {
				t.Errorf("%s: of prompt %d %v tokens were kept, and the last are what the other server has sent", model, i, h.Kept)
			}
		}
	}
}

// TestDisaggregationLayouts: servers of different layouts go on from each other's prompts, each rank's key heads joined or divided, with the tokens of one rank, while several prompts cross at once:
// heads that several ranks have, windows, bytes and four bits, and stages. With --deterministic, and where states are divided, nothing is transferred.
func TestDisaggregationLayouts(t *testing.T) {
	one, two, four := ridge.Layout{}, ridge.Layout{Tensor: 2}, ridge.Layout{Tensor: 4}
	for _, c := range []struct {
		model         string
		cache         string
		from, to      ridge.Layout
		deterministic bool
		nothing       bool
	}{
		{"llama-default", "", two, one, false, false}, {"llama-default", "", one, two, false, false}, {"llama-default", "int8", two, one, false, false}, {"llama-default", "int4", one, two, false, false},
		{"llama-default", "", four, two, false, false}, {"llama-default", "", two, four, false, false}, {"gemma3-pattern", "", two, ridge.Layout{Pipeline: 2}, false, false},
		{"llama-default", "", ridge.Layout{Tensor: 2, Pipeline: 2}, one, false, false}, {"llama-mqa-tied-bias", "", one, two, false, false}, {"llama-mqa-tied-bias", "", two, one, false, false},
		{"qwen3.5-wide", "", one, ridge.Layout{Pipeline: 2}, false, false}, {"qwen3.5-wide", "", one, two, false, true}, {"llama-default", "", two, one, true, true},
	} {
		path := withTokenizer(t, filepath.Join("internal/check/testdata", c.model))
		o := ridge.Options{Context: 160, StepTokens: 40, Parallel: 4, Threads: 1, Cache: c.cache, Deterministic: c.deterministic}
		plain, both := loadFrom(t, path, o), pair{}
		o.Layout, o.KVTransfer = c.from, ridge.KVTransfer{Secret: transferSecret, Listen: "127.0.0.1:0"}
		both.prefill = loadFrom(t, path, o)
		o.Layout, o.KVTransfer = c.to, ridge.KVTransfer{Secret: transferSecret}
		both.decode = loadFrom(t, path, o)
		prompts := manyPrompts(8, 100)
		_, _, f := ask(t, both.prefill, prompts[0][:40], 1, &ridge.RemoteKV{DoRemoteDecode: true})
		var asked sync.WaitGroup
		var sent atomic.Int64
		for i := range prompts {
			if i%2 > 0 {
				continue // begins as the one before
			}
			want, _, _ := ask(t, plain, prompts[i], 12, nil)
			id := "prompt " + strconv.Itoa(i)
			remote := *f.Remote
			remote.RemoteRequestID = &id
			asked.Go(func() {
				ask(t, both.prefill, prompts[i], 1, &ridge.RemoteKV{DoRemoteDecode: true, RemoteRequestID: &id})
			})
			asked.Go(func() {
				got, _, h := ask(t, both.decode, prompts[i], 12, &remote)
				if !slices.Equal(got, want) {
					t.Errorf("%+v: prompt %d has another answer than one rank's", c, i)
				}
				sent.Add(int64(h.Kept[ridge.KeptAtPeer]))
			})
		}
		asked.Wait()
		if n := sent.Load(); c.nothing != (n == 0) || !c.nothing && n < 64 { // of four prompts; a replica that waits too long computes some itself
			t.Errorf("%+v: %d tokens were another server's", c, n)
		}
	}
}

// cutter passes connections on, and does something to them after so many bytes of answers.
func cutter(t *testing.T, port int, after int64, hang bool) (at int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var left atomic.Int64
	left.Store(after)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			a, err := l.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
			if err != nil {
				a.Close()
				continue
			}
			t.Cleanup(func() { a.Close(); b.Close() })
			go io.Copy(b, a)
			go func() {
				buffer := make([]byte, 512)
				for {
					n, err := b.Read(buffer)
					if err == nil && left.Add(-int64(n)) < 0 {
						if hang {
							return // nothing more comes, and nothing ends
						}
						err = io.ErrUnexpectedEOF
					}
					if err != nil {
						a.Close()
						b.Close()
						return
					}
					a.Write(buffer[:n])
				}
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// TestDisaggregationFaults: whatever becomes of the prefill server or the link to it, the decode server gives the answer of one server, soon, and no page stays taken.
func TestDisaggregationFaults(t *testing.T) {
	path := withTokenizer(t, filepath.Join("internal/check/testdata", "llama-default"))
	o := ridge.Options{Context: 160, StepTokens: 32, Parallel: 2, Deterministic: true, Threads: 1}
	prompts := manyPrompts(20, 100)
	want, _, _ := ask(t, loadFrom(t, path, o), prompts[0], 12, nil)
	both := newPair(t, path, o, 300*time.Millisecond)
	_, _, f := ask(t, both.prefill, prompts[0], 1, &ridge.RemoteKV{DoRemoteDecode: true})
	whole := *f.Remote
	check := func(what string, m *ridge.Model, remote ridge.RemoteKV) {
		t.Helper()
		began := time.Now()
		got, _, f := ask(t, m, prompts[0], 12, &remote)
		if took := time.Since(began); !slices.Equal(got, want) || took > 20*time.Second {
			t.Errorf("%s: after %v the answer is\n%v\nand should be\n%v", what, took, got, want)
		}
		s := m.Stats()
		for until := began.Add(20 * time.Second); s.Running+s.Waiting+s.PagesUsed > 0 && time.Now().Before(until); s = m.Stats() { // they are published after the answer's end
			time.Sleep(time.Millisecond)
		}
		if s.Running+s.Waiting+s.PagesUsed > 0 {
			t.Errorf("%s: %d requests and %d pages are left (%v)", what, s.Running+s.Waiting, s.PagesUsed, f.Kept)
		}
	}
	decode := func() *ridge.Model {
		other := o
		other.KVTransfer = ridge.KVTransfer{Secret: transferSecret}
		return loadFrom(t, path, other)
	}
	for _, after := range []int64{0, 40, 150, 1000, 3000, 9000} {
		cut := whole
		port := cutter(t, *whole.RemotePort, after, false)
		cut.RemotePort = &port
		check("the link is cut after "+strconv.Itoa(int(after)), decode(), cut)
	}
	hung := whole
	port := cutter(t, *whole.RemotePort, 3000, true)
	hung.RemotePort = &port
	check("the link hangs", decode(), hung)
	nobody := whole
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port = free.Addr().(*net.TCPAddr).Port
	free.Close()
	nobody.RemotePort = &port
	check("nobody listens", decode(), nobody)
	other := o
	other.KVTransfer = ridge.KVTransfer{Secret: "another secret than that"}
	check("another secret", loadFrom(t, path, other), whole)
	quantised := o
	quantised.Cache = "f32"
	quantised.KVTransfer = ridge.KVTransfer{Secret: transferSecret}
	if _, _, f := ask(t, loadFrom(t, path, quantised), prompts[0], 12, &whole); f.Kept[ridge.KeptAtPeer] != 0 {
		t.Error("a server with another type of cache took pages over")
	}
	// The decode server has gone: leases end by themselves, and others' prompts find room.
	for _, prompt := range prompts {
		ask(t, both.prefill, prompt, 1, &ridge.RemoteKV{DoRemoteDecode: true})
	}
	deadline := time.Now().Add(10 * time.Second)
	for both.prefill.Stats().Kept.Expired == 0 && time.Now().Before(deadline) {
		time.Sleep(20 * time.Millisecond) // no step follows
	}
	if both.prefill.Stats().Kept.Expired == 0 {
		t.Error("leases that nobody gave back have not ended, or an idle server does not say so")
	}
	// The prefill server dies.
	m := decode()
	if err := both.prefill.Close(); err != nil {
		t.Fatal(err)
	}
	check("the prefill server is gone", m, whole)
}

// TestTransferPeers: a server asks those for pages that it was told of, and refuses requests that name others; without a list it asks anybody.
func TestTransferPeers(t *testing.T) {
	path := withTokenizer(t, "internal/check/testdata/llama-default")
	o := ridge.Options{Context: 64, Threads: 1, KVTransfer: ridge.KVTransfer{Secret: transferSecret, Peers: []string{"prefill.example", "127.0.0.1", "10.1.0.0/16", "fd00::/8"}}}
	m := loadFrom(t, path, o)
	o.KVTransfer.Peers = nil
	open := loadFrom(t, path, o)
	port := 1
	for host, ok := range map[string]bool{
		"Prefill.example": true, "127.0.0.1": true, "::ffff:127.0.0.1": true, "10.1.255.1": true, "fd00::1": true,
		"127.0.0.2": false, "10.2.0.1": false, "localhost": false, "prefill.example.": false, "10.1.0.0/16": false, "169.254.169.254": false, "fe80::1%eth0": false,
	} {
		p := ridge.Greedy()
		p.Remote = &ridge.RemoteKV{DoRemotePrefill: true, RemoteHost: &host, RemotePort: &port}
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // nothing is to be computed
		for name, server := range map[string]*ridge.Model{"listed": m, "any": open} {
			_, err := server.GenerateMany(ctx, []int32{1, 2, 3}, []ridge.Params{p})
			if refused := errors.Is(err, ridge.ErrInvalidRequest) && strings.Contains(err.Error(), "--kv-transfer-peers"); refused == (ok || name == "any") {
				t.Errorf("%s, %s: %v", host, name, err)
			}
		}
	}
	for _, bad := range []ridge.KVTransfer{{Peers: []string{"a"}}, {Secret: transferSecret, Peers: []string{"10.0.0.0/33"}}, {Secret: transferSecret, Peers: []string{""}}} {
		if _, err := ridge.Load(path, ridge.Options{KVTransfer: bad}); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}
