package store

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/ridge-llm/ridge/internal/size"
)

// Quota bounds what an owner may store. 0: no bound.
type Quota struct {
	Bytes     int64 // of files; the output of batches counts, but is never refused
	Batches   int   // that are not over
	Responses int64 // bytes of kept responses; of more, the oldest are forgotten
	Kept      int   // batches that are over; of more, the oldest are forgotten, their files are not
}

// QuotaError refuses what goes beyond a quota.
type QuotaError struct{ Reason string }

func (e *QuotaError) Error() string { return "store: " + e.Reason }

// SetQuota sets what each owner may store from now on.
func (s *Store) SetQuota(q Quota) {
	s.mu.Lock()
	s.quota = q
	s.mu.Unlock()
}

// reserve counts bytes that an owner is uploading, or takes them back (n < 0).
func (s *Store) reserve(owner string, n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if used := s.uploading[owner] + s.stored(owner); n > 0 && s.quota.Bytes > 0 && used+n > s.quota.Bytes {
		return &QuotaError{fmt.Sprintf("the files take %s of the quota of %s (--file-quota), and this one has no room; delete some", size.Text(s.stored(owner)), size.Text(s.quota.Bytes))}
	}
	if s.uploading[owner] += n; s.uploading[owner] == 0 {
		delete(s.uploading, owner)
	}
	return nil
}

// stored is the size of an owner's files. s.mu is held.
func (s *Store) stored(owner string) int64 {
	if s.sizes == nil {
		s.sizes = map[string]int64{}
		for _, f := range s.files {
			s.sizes[f.Owner] += max(f.Bytes, smallest)
		}
	}
	return s.sizes[owner]
}

// smallest is what an empty file counts as, in bytes: about what the file system takes for it and its description.
const smallest = 8 << 10

// admitBatch refuses a batch beyond its owner's quota. s.mu is held.
func (s *Store) admitBatch(owner string) error {
	n := s.making[owner]
	for _, b := range s.batches {
		if b.Owner == owner && !b.Status.Over() {
			n++
		}
	}
	if s.quota.Batches > 0 && n >= s.quota.Batches {
		return &QuotaError{fmt.Sprintf("the quota of batches that are waiting or under way, %d (--batch-quota), is used up; wait for one to end, or cancel one", s.quota.Batches)}
	}
	return nil
}

// forgetBatches removes the oldest batches of an owner that are over, beyond the number that is kept. s.mu is held.
func (s *Store) forgetBatches(owner string) error {
	var over []Batch
	for _, b := range s.batches {
		if b.Owner == owner && b.Status.Over() {
			over = append(over, b)
		}
	}
	if s.quota.Kept <= 0 || len(over) <= s.quota.Kept {
		return nil
	}
	slices.SortFunc(over, func(a, b Batch) int { return cmp.Compare(b.ID, a.ID) })
	var all error
	for _, b := range over[s.quota.Kept:] {
		delete(s.batches, b.ID)
		all = errors.Join(all, s.remove(s.description("batches", b.ID)))
	}
	return all
}
