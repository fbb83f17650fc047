package store

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestQuota: each owner has a quota of bytes, which uploads under way count for, and of batches; old batches that are over are forgotten.
func TestQuota(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	s.SetQuota(Quota{Bytes: 1 << 20, Batches: 2, Kept: 3})
	var refusal *QuotaError
	var kept, refused int
	var all sync.WaitGroup
	var mu sync.Mutex
	for range 8 {
		all.Go(func() {
			u, err := s.Receive("a", strings.NewReader(strings.Repeat("x", 300<<10)), 1<<20)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				if _, err := u.Keep("x", "batch", time.Time{}); err != nil {
					t.Error(err)
				}
				kept++
			case errors.As(err, &refusal):
				refused++
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if kept > 3 || kept+refused != 8 {
		t.Errorf("%d files of 300 KiB are kept and %d refused in a quota of 1 MiB", kept, refused)
	}
	if s = reopen(t, s); len(s.Files()) != kept {
		t.Errorf("%d of %d files are there again", len(s.Files()), kept)
	}
	s.SetQuota(Quota{Batches: 2, Kept: 3})
	for i := range 6 {
		b, err := s.NewBatch(Batch{Owner: "a"})
		if err != nil {
			t.Fatalf("batch %d: %v", i, err)
		}
		b.Status = Completed
		if err := s.PutBatch(b); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if _, err := s.NewBatch(Batch{Owner: "a"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.NewBatch(Batch{Owner: "a"}); !errors.As(err, &refusal) {
		t.Errorf("a third batch under way: %v", err)
	}
	if _, err := s.NewBatch(Batch{Owner: "b"}); err != nil {
		t.Errorf("a batch of another: %v", err)
	}
	if s = reopen(t, s); len(s.Batches()) != 6 {
		t.Errorf("%d batches are kept, of which 3 are over and 3 not", len(s.Batches()))
	}
}
