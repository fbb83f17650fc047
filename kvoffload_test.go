package ridge_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/internal/s3/s3test"
)

// keeps are answers to the same prompts from a model that keeps pages beyond its cache: what was answered, and where the prompts were found.
func keeps(t *testing.T, m *ridge.Model, prompts [][]int32, tenant string) (all [][]int32, logprobs [][]float32, kept [4]int) {
	t.Helper()
	for _, prompt := range prompts {
		p := ridge.Greedy()
		p.MaxTokens, p.IgnoreEnd, p.Tenant, p.Sampling.Logprobs = 12, true, tenant, true
		pieces, err := m.GenerateMany(context.Background(), prompt, []ridge.Params{p})
		if err != nil {
			t.Fatal(err)
		}
		var ids []int32
		var logs []float32
		for piece, err := range pieces[0] {
			if err != nil {
				t.Fatal(err)
			}
			if piece.Token != nil {
				ids, logs = append(ids, piece.Token.Token), append(logs, float32(piece.Token.Logprob))
			}
			if f := piece.Finish; f != nil {
				for i, n := range f.Kept {
					kept[i] += n
				}
			}
		}
		all, logprobs = append(all, ids), append(logprobs, logs)
	}
	return all, logprobs, kept
}

// manyPrompts are prompts of which some begin alike.
func manyPrompts(n, length int) (all [][]int32) {
	for i := range n {
		prompt := make([]int32, length+i)
		for k := range prompt {
			prompt[k] = int32(3 + (k*7+(i/2)*11)%80)
		}
		all = append(all, prompt)
	}
	return all
}

// TestKVOffload: behind what was kept in host memory, on a disk over a restart, and in a folder that another server has written, answers are those of a model that keeps nothing, to
// the last bit of their log-probabilities: with full layers, windows, experts, latent attention and recurrent layers, on one device and several. Tenants find nothing of each other's.
func TestKVOffload(t *testing.T) {
	for _, c := range []struct {
		model  string
		memory int64 // of the cache: little more than a request takes
		layout ridge.Layout
		cache  string
	}{
		{"llama-default", 30 << 10, ridge.Layout{}, ""}, {"llama-default", 30 << 10, ridge.Layout{Tensor: 2}, ""}, {"llama-default", 30 << 10, ridge.Layout{}, "int8"}, {"llama-default", 30 << 10, ridge.Layout{}, "int4"}, {"llama-default", 30 << 10, ridge.Layout{Sequence: 2}, ""}, {"gemma3-pattern", 192 << 10, ridge.Layout{}, ""}, {"qwen3.5-wide", 48 << 10, ridge.Layout{}, ""}, {"mistral-window", 24 << 10, ridge.Layout{}, ""}, {"gptoss-yarn", 48 << 10, ridge.Layout{}, ""}, {"mamba-bias", 192 << 10, ridge.Layout{}, ""}, {"kimi-linear", 32 << 10, ridge.Layout{}, ""}} {
		if testing.Short() && c.model != "llama-default" && c.model != "kimi-linear" {
			continue
		}
		path := withTokenizer(t, filepath.Join("internal/check/testdata", c.model))
		prompts := manyPrompts(6, 100)
		base := ridge.Options{KV: ridge.Budget{Bytes: c.memory}, Context: 144, StepTokens: 64, Parallel: 2, Deterministic: true, Layout: c.layout, Cache: c.cache, Threads: 1}
		load := func(k ridge.KVOffload) *ridge.Model {
			o := base
			o.KVOffload, o.KVOffload.Always = k, true
			m, err := ridge.Load(path, o)
			if err != nil {
				t.Fatalf("%s: %v", c.model, err)
			}
			return m
		}
		plain := load(ridge.KVOffload{})
		want, logs, _ := keeps(t, plain, prompts, "")
		plain.Close()
		check := func(m *ridge.Model, what string, place int) {
			t.Helper()
			for round := range 2 {
				got, gotLogs, kept := keeps(t, m, prompts, "a")
				for i := range want {
					if !slices.Equal(got[i], want[i]) || !slices.Equal(gotLogs[i], logs[i]) {
						t.Fatalf("%s, %s, round %d: request %d has other tokens or log-probabilities", c.model, what, round, i)
					}
				}
				if place >= 0 && kept[place] == 0 && (round == 1 || place != ridge.KeptInMemory) {
					t.Errorf("%s %+v %s, %s, round %d: nothing was found at place %d: %v", c.model, c.layout, c.cache, what, round, place, kept)
				}
				if place != ridge.KeptInMemory {
					break
				}
			}
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
		}
		disk, shared := filepath.Join(t.TempDir(), "disk"), filepath.Join(t.TempDir(), "shared")
		check(load(ridge.KVOffload{HostMemory: 8 << 20}), "host memory", ridge.KeptInMemory)
		check(load(ridge.KVOffload{Disk: disk}), "disk, empty", -1)
		check(load(ridge.KVOffload{Shared: shared}), "shared folder, empty", -1)
		check(load(ridge.KVOffload{Disk: disk}), "disk after a restart", ridge.KeptOnDisk)
		check(load(ridge.KVOffload{Shared: shared}), "another server's folder", ridge.KeptShared)
		other := load(ridge.KVOffload{Disk: disk})
		if _, _, kept := keeps(t, other, prompts, "b"); kept != [4]int{} && kept[ridge.KeptOnDisk] > 0 {
			t.Errorf("%s: tenant b found %v tokens of tenant a", c.model, kept)
		}
		other.Close()
	}
}

// TestKVBucket: what a server has put into a bucket is another's, with the same answers; a store that fails, or that never answers, holds no request up for longer than its prompt may take to
// compute.
func TestKVBucket(t *testing.T) {
	store := s3test.New(t)
	path := withTokenizer(t, filepath.Join("internal/check/testdata", "llama-default"))
	prompts := manyPrompts(6, 100)
	load := func(shared string, always bool) *ridge.Model {
		t.Helper()
		return loadFrom(t, path, ridge.Options{Context: 144, StepTokens: 64, Parallel: 2, Deterministic: true, Threads: 1, KVOffload: ridge.KVOffload{Shared: shared, Always: always}})
	}
	want, logs, _ := keeps(t, load("", true), prompts, "a")
	check := func(what string, found bool) {
		t.Helper()
		m := load("s3://bucket/kv", what != "hangs")
		if what == "fails" || what == "hangs" {
			store.Fail(what == "fails", map[string]time.Duration{"hangs": time.Hour}[what])
		}
		began := time.Now()
		got, gotLogs, kept := keeps(t, m, prompts, "a")
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%s: %d prompts took %v", what, len(prompts), took)
		}
		for i := range want {
			if !slices.Equal(got[i], want[i]) || !slices.Equal(gotLogs[i], logs[i]) {
				t.Errorf("%s: request %d has other tokens or log-probabilities", what, i)
			}
		}
		if found != (kept[ridge.KeptShared] > 0) {
			t.Errorf("%s: of the bucket were %v", what, kept)
		}
		if err := m.Close(); err != nil { // what waits to be written is written
			t.Error(err)
		}
		store.Fail(false, 0)
	}
	check("empty", false)
	check("another server", true)
	check("fails", false)
	check("hangs", false)
	store.CloseClientConnections()
	if _, err := ridge.Load(path, ridge.Options{KVOffload: ridge.KVOffload{Shared: "s3://bucket/kv", SharedSize: 1 << 20}}); err == nil || !strings.Contains(err.Error(), "lifecycle") {
		t.Errorf("a bucket of a size: %v", err)
	}
}
