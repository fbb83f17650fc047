package kvstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/engine/kv"
	"github.com/ridge-llm/ridge/engine/offload"
)

func key(i int) (k kv.Key) {
	binary.LittleEndian.PutUint64(k[:], uint64(i)*0x9e3779b97f4a7c15)
	return k
}

// parts are what the file of a key holds, of two groups, in pieces.
func parts(i, size int) []offload.Part {
	b := make([]byte, size)
	for j := range b {
		b[j] = byte(i + j*j)
	}
	return []offload.Part{{Group: 0, Bytes: int64(size), Pieces: [][]byte{b[:size/3], b[size/3:]}}, {Group: 2, Bytes: 5, Pieces: [][]byte{b[:5]}}}
}

// read is what a folder has under a key, as one piece.
func read(f *Folder, k kv.Key) (all []byte, ok bool, err error) {
	ok, err = f.Read(k, func(p []offload.Part) bool {
		n := int64(0)
		for _, part := range p {
			n += part.Bytes
		}
		all = make([]byte, n)
		at := int64(0)
		for i := range p {
			p[i].Pieces = [][]byte{all[at : at+1], all[at+1 : at+p[i].Bytes]}
			at += p[i].Bytes
		}
		return true
	})
	return all, ok, err
}

func joined(p []offload.Part) (all []byte) {
	for _, part := range p {
		for _, piece := range part.Pieces {
			all = append(all, piece...)
		}
	}
	return all
}

func open(t *testing.T, dir string, most int64) *Folder {
	t.Helper()
	f, err := Open("disk", dir, most)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// TestDamaged: a file that was cut anywhere, or of which any byte was changed, is a miss and not other numbers; it is gone then, and can be written again.
func TestDamaged(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir, 1<<20)
	want := parts(1, 300)
	if _, err := f.Write(key(1), want); err != nil {
		t.Fatal(err)
	}
	path := f.path(key(1))
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := range whole {
		changed := bytes.Clone(whole)
		changed[at] ^= 1 << (at % 8)
		for what, data := range map[string][]byte{"cut": whole[:at], "changed": changed, "longer": append(bytes.Clone(whole), changed[:at+1]...)} {
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, ok, err := read(f, key(1)); ok || err == nil {
				t.Fatalf("a file %s at byte %d is read, with error %v", what, at, err)
			}
			if f.Has(key(1)) {
				t.Fatalf("a file %s at byte %d is still there", what, at)
			}
		}
	}
	if _, err := f.Write(key(1), want); err != nil {
		t.Fatal(err)
	}
	if got, ok, err := read(f, key(1)); !ok || err != nil || !bytes.Equal(got, joined(want)) {
		t.Errorf("what was written again is read as %t, %v", ok, err)
	}
	if _, ok, err := read(f, key(2)); ok || err != nil {
		t.Errorf("what was never written is read: %t, %v", ok, err)
	}
}

// TestBound: a folder holds no more than it may, of what was used last, and the files that a crash has left half-written go.
func TestBound(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir, 20_000)
	for i := range 100 {
		if _, err := f.Write(key(i), parts(i, 1000)); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(time.Duration(i-2000) * time.Minute)
		if err := os.Chtimes(f.path(key(i)), old, old); err != nil {
			t.Fatal(err)
		}
		if _, ok, err := read(f, key(0)); !ok || err != nil { // which is used all the time
			t.Fatalf("after %d files the one in use is gone: %v", i, err)
		}
		f.sweeps.Wait()
	}
	left := filepath.Join(dir, "ab", "old"+temporary)
	old := time.Now().Add(-2 * staleTemp)
	if err := errors.Join(os.MkdirAll(filepath.Dir(left), 0o700), os.WriteFile(left, []byte("x"), 0o600), os.Chtimes(left, old, old)); err != nil {
		t.Fatal(err)
	}
	f.sweep()
	f.sweeps.Wait()
	files, total := f.list()
	if total > 20_000 || len(files) < 10 {
		t.Errorf("%d files of %d bytes are left; at most 20,000 are allowed", len(files), total)
	}
	if !f.Has(key(99)) || f.Has(key(50)) {
		t.Errorf("the last written is there: %t; one of the middle: %t", f.Has(key(99)), f.Has(key(50)))
	}
	if _, err := os.Stat(left); err == nil {
		t.Error("a file that was half-written hours ago is still there")
	}
}

// TestTogether: several servers write, read and bound one folder at once, and none reads what another has not written.
func TestTogether(t *testing.T) {
	dir := t.TempDir()
	var wait sync.WaitGroup
	found := make([]int, 4)
	for server := range found {
		f := open(t, dir, 40_000)
		wait.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(server), 1))
			for range 600 {
				i := rng.IntN(60)
				if rng.IntN(3) == 0 {
					if _, err := f.Write(key(i), parts(i, 900)); err != nil {
						t.Errorf("server %d: %v", server, err)
						return
					}
					continue
				}
				got, ok, err := read(f, key(i))
				if err != nil || ok && !bytes.Equal(got, joined(parts(i, 900))) {
					t.Errorf("server %d reads key %d as something else (%v)", server, i, err)
					return
				}
				if ok {
					found[server]++
				}
			}
		})
	}
	secrets := make([][32]byte, 8)
	for i := range secrets {
		wait.Go(func() {
			var err error
			if secrets[i], err = Secret(dir); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	for i := range secrets {
		if secrets[i] != secrets[0] || secrets[i] == [32]byte{} {
			t.Error("servers of one folder have different secrets")
		}
	}
	if found[0] == 0 {
		t.Error("nothing was found")
	}
}
