package store

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
)

// Batch is what is known of a batch job, in the shape that OpenAI's API shows.
type Batch struct {
	ID         string            `json:"id"`
	Object     string            `json:"object"` // "batch"
	Endpoint   string            `json:"endpoint"`
	Errors     *Errors           `json:"errors"`
	Input      string            `json:"input_file_id"`
	Window     string            `json:"completion_window"`
	Status     Status            `json:"status"`
	Output     string            `json:"output_file_id,omitempty"`
	ErrorFile  string            `json:"error_file_id,omitempty"`
	Created    int64             `json:"created_at"`
	Begun      int64             `json:"in_progress_at,omitempty"`
	Expires    int64             `json:"expires_at,omitempty"`
	Finalizing int64             `json:"finalizing_at,omitempty"`
	Completed  int64             `json:"completed_at,omitempty"`
	Failed     int64             `json:"failed_at,omitempty"`
	Expired    int64             `json:"expired_at,omitempty"`
	Cancelling int64             `json:"cancelling_at,omitempty"`
	Cancelled  int64             `json:"cancelled_at,omitempty"`
	Counts     Counts            `json:"request_counts"`
	Metadata   map[string]string `json:"metadata"`
	Owner      string            `json:"owner,omitempty"` // the tenant that made it; "": there were no keys
}

// Status is where a batch stands.
type Status string

// The stages of a batch. The first two and Cancelling are left again; a batch in one of the others is over.
const (
	Validating Status = "validating"
	InProgress Status = "in_progress"
	Cancelling Status = "cancelling"
	Completed  Status = "completed"
	Failed     Status = "failed"
	Expired    Status = "expired"
	Cancelled  Status = "cancelled"
)

// Over reports whether nothing happens to the batch any more.
func (s Status) Over() bool {
	return s == Completed || s == Failed || s == Expired || s == Cancelled
}

// Counts is how far a batch is, in requests.
type Counts struct {
	Total     int `json:"total"`
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
}

// Errors is what is wrong with a batch as a whole.
type Errors struct {
	Object string       `json:"object"` // "list"
	Data   []BatchError `json:"data"`
}

// BatchError is one thing that is wrong.
type BatchError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Line    int    `json:"line,omitempty"` // of the input, from 1
}

// NewBatch keeps a new batch, whose id it sets, unless its owner has as many as may be. Old ones that are over may be forgotten for it.
// Nobody sees the batch before its description is durable: whoever did could write another at the same time.
func (s *Store) NewBatch(b Batch) (Batch, error) {
	b.ID, b.Object = newID("batch_"), "batch"
	if err := s.reserveBatch(b.Owner); err != nil {
		return Batch{}, err
	}
	err := s.describe("batches", b.ID, b)
	if err != nil {
		err = errors.Join(err, s.remove(s.description("batches", b.ID))) // it may have its name and only not be durable
	}
	s.enterBatch(b, err == nil)
	return b, err
}

// reserveBatch counts a batch that is being made.
func (s *Store) reserveBatch(owner string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.admitBatch(owner); err != nil {
		return err
	}
	s.making[owner]++
	return nil
}

// enterBatch ends what reserveBatch began: the batch has been made, or has not.
func (s *Store) enterBatch(b Batch, made bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.making[b.Owner]--; s.making[b.Owner] == 0 {
		delete(s.making, b.Owner)
	}
	if made {
		s.batches[b.ID] = b
		_ = s.forgetBatches(b.Owner) // what is left of them is found again at the next start
	}
}

// PutBatch keeps a batch's new state.
func (s *Store) PutBatch(b Batch) error {
	if err := s.describe("batches", b.ID, b); err != nil {
		return err
	}
	s.Show(b)
	return nil
}

// Show makes a batch's new state visible without writing it to disk: counts, which the journal has.
func (s *Store) Show(b Batch) {
	s.mu.Lock()
	s.batches[b.ID] = b
	s.mu.Unlock()
}

// Batches lists all batches, the newest first.
func (s *Store) Batches() []Batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Batch
	for _, b := range s.batches {
		all = append(all, b)
	}
	slices.SortFunc(all, func(a, b Batch) int { return cmp.Compare(b.ID, a.ID) })
	return all
}

// Batch is what is known of one batch.
func (s *Store) Batch(id string) (Batch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.batches[id]
	if !ok {
		return b, fmt.Errorf("%w: there is no batch %q", ErrNotFound, id)
	}
	return b, nil
}

// DeleteBatch removes a batch that is over, with its input and what it has written. The files go first: when that is cut short, the batch is there to be deleted again.
func (s *Store) DeleteBatch(id string) error {
	b, err := s.Batch(id)
	if err != nil {
		return err
	}
	for _, file := range []string{b.Input, b.Output, b.ErrorFile} {
		if err := s.Delete(file); file != "" && err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := errors.Join(s.remove(s.description("batches", id)), syncDir(s.disk, filepath.Join(s.dir, "batches"))); err != nil {
		return err
	}
	delete(s.batches, id)
	return nil
}

// journal is the path of a batch's journal of one kind: "output" or "error".
func (s *Store) journal(id, kind string) string {
	return filepath.Join(s.dir, "batches", id+"."+kind)
}
