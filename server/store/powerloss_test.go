package store_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/internal/testkit/memdisk"
	"github.com/ridge-llm/ridge/server/store"
)

// TestPowerLoss has the power fail at every operation of the disk in turn while files are stored and deleted and a batch is worked through. What the
// store had said was kept is there at the next start, once and whole; what it had said was deleted is not.
func TestPowerLoss(t *testing.T) {
	for seed := range uint64(5) {
		for at := 1; ; at++ {
			d := memdisk.New(rand.New(rand.NewPCG(seed, uint64(at))))
			d.Start(memdisk.Faults{CrashAt: at})
			var p promises
			err := p.work(d)
			if err != nil && !errors.Is(err, memdisk.ErrPower) {
				t.Fatalf("seed %d, operation %d: %v", seed, at, err)
			}
			dead := d.Dead()
			d.Start(memdisk.Faults{})
			if broken := p.check(d); broken != nil {
				t.Fatalf("seed %d, the power fails at operation %d: %v", seed, at, broken)
			}
			if !dead {
				break
			}
		}
	}
}

// promises are what the store has said.
type promises struct {
	kept, deleted string // ids of files
	batch         string
	response      string   // id of one that is kept
	forgotten     string   // and of one that was deleted
	lines         []string // custom ids of finished lines
	output        string   // id of the file that they have become
}

func upload(s *store.Store) (string, error) {
	u, err := s.Receive("", strings.NewReader(strings.Repeat("content\n", 1000)), 1<<20)
	if err != nil {
		return "", err
	}
	f, err := u.Keep("name", "batch", time.Time{})
	return f.ID, err
}

// work makes the promises, until the power fails.
func (p *promises) work(d *memdisk.Disk) error {
	s, err := store.OpenOn(d, "data")
	if err != nil {
		return err
	}
	defer s.Close()
	if p.kept, err = upload(s); err != nil {
		p.kept = ""
		return err
	}
	gone, err := upload(s)
	if err != nil {
		return err
	}
	if err := s.Delete(gone); err != nil {
		return err
	}
	p.deleted = gone
	if err := p.keepResponses(s); err != nil {
		return err
	}
	b, err := s.NewBatch(store.Batch{Input: p.kept, Status: store.InProgress})
	if err != nil {
		return err
	}
	p.batch = b.ID
	j, err := s.Journal(b.ID)
	if err != nil {
		return err
	}
	for i := range 4 {
		id := fmt.Sprint(i)
		kind := []string{store.Output, store.Error}[i/3]
		if err := j.Append(kind, store.Line{CustomID: id, Text: fmt.Appendf(nil, `{"custom_id": %q, "text": %q}`, id, strings.Repeat("x", 100))}); err != nil {
			return err
		}
		p.lines = append(p.lines, id)
	}
	output, _, err := j.Finish()
	if err == nil {
		p.output = output
	}
	return err
}

const answered = `{"response": {}}`

// keepResponses keeps two responses and deletes one.
func (p *promises) keepResponses(s *store.Store) error {
	id, gone := store.NewResponseID(), store.NewResponseID()
	if err := s.PutResponse("", id, []byte(answered)); err != nil {
		return err
	}
	p.response = id
	if err := s.PutResponse("", gone, []byte(answered)); err != nil {
		return err
	}
	if err := s.DeleteResponse(gone); err != nil {
		return err
	}
	p.forgotten = gone
	return nil
}

// checkResponses returns what is broken of the promises about responses.
func (p *promises) checkResponses(s *store.Store) error {
	if text, err := s.ResponseContent(p.response); p.response != "" && (err != nil || string(text) != answered) {
		return fmt.Errorf("the response is %q, %v", text, err)
	}
	if _, err := s.Response(p.forgotten); p.forgotten != "" && err == nil {
		return errors.New("a response that was deleted is there again")
	}
	return nil
}

// check returns what is broken of the promises.
func (p *promises) check(d *memdisk.Disk) error {
	s, err := store.OpenOn(d, "data")
	if err != nil {
		return err
	}
	defer s.Close()
	if len(s.Damaged()) > 0 {
		return fmt.Errorf("damaged: %v", s.Damaged())
	}
	for _, f := range s.Files() { // what is there is whole
		c, err := s.Open(f.ID)
		if err != nil {
			return err
		}
		text, err := io.ReadAll(c)
		if err != nil || int64(len(text)) != f.Bytes {
			return fmt.Errorf("%s has %d bytes of %d, %v", f.ID, len(text), f.Bytes, err)
		}
		c.Close()
	}
	for _, id := range []string{p.kept, p.output} {
		if _, err := s.File(id); id != "" && err != nil {
			return err
		}
	}
	if _, err := s.File(p.deleted); p.deleted != "" && err == nil {
		return errors.New("a file that was deleted is there again")
	}
	if err := p.checkResponses(s); err != nil || p.batch == "" {
		return err
	}
	j, err := s.Journal(p.batch)
	if err != nil {
		return err
	}
	defer j.Close()
	for _, id := range p.lines {
		if !j.Done[id] {
			return fmt.Errorf("line %s is lost; there are %d", id, len(j.Done))
		}
	}
	if n := j.Lines(store.Output) + j.Lines(store.Error); n != len(j.Done) {
		return fmt.Errorf("%d lines are done and %d are there", len(j.Done), n)
	}
	if _, _, err := j.Finish(); err != nil { // it can be finished, again if need be
		return err
	}
	for _, at := range d.Files() {
		if strings.HasSuffix(at, ".partial") || strings.HasSuffix(at, ".output") || strings.HasSuffix(at, ".error") {
			return fmt.Errorf("%s is left behind", at)
		}
	}
	return nil
}

// watched is a disk that calls renaming before it renames.
type watched struct {
	*memdisk.Disk
	renaming func()
}

// Rename implements store.Disk.
func (w *watched) Rename(from, to string) error {
	w.renaming()
	return w.Disk.Rename(from, to)
}

// TestNewBatchIsWhole: nobody sees a batch, and so nobody works on it and describes it anew, before its first description is durable.
func TestNewBatchIsWhole(t *testing.T) {
	d := &watched{Disk: memdisk.New(rand.New(rand.NewPCG(1, 1))), renaming: func() {}}
	s, err := store.OpenOn(d, "data")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.SetQuota(store.Quota{Batches: 1})
	renamed := 0
	d.renaming = func() {
		renamed++
		if n := len(s.Batches()); n > 0 {
			t.Errorf("%d batches are seen", n)
		}
		if _, err := s.NewBatch(store.Batch{}); err == nil {
			t.Error("the quota does not count a batch that is being made")
		}
	}
	if _, err := s.NewBatch(store.Batch{}); err != nil || renamed != 1 || len(s.Batches()) != 1 {
		t.Errorf("%v; %d renamed, %d batches", err, renamed, len(s.Batches()))
	}
}

// TestRewrittenResponse: a response or a conversation that is written again has the old content or the new for those who read it meanwhile, and on a full disk the old.
func TestRewrittenResponse(t *testing.T) {
	d := memdisk.New(rand.New(rand.NewPCG(1, 2)))
	d.Start(memdisk.Faults{})
	s, err := store.OpenOn(d, "data")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	id := store.NewConversationID()
	contents := []string{strings.Repeat("a", 10), strings.Repeat("b", 1000)}
	if err := s.PutResponse("", id, []byte(contents[0])); err != nil {
		t.Fatal(err)
	}
	over := make(chan error)
	go func() {
		var err error
		for i := 0; i < 1000 && err == nil; i++ {
			err = s.PutResponse("", id, []byte(contents[i%2]))
		}
		over <- err
	}()
	for ended := false; !ended; {
		select {
		case err := <-over:
			if ended = true; err != nil {
				t.Fatal(err)
			}
		default:
		}
		if got, err := s.ResponseContent(id); err != nil || !slices.Contains(contents, string(got)) {
			t.Errorf("%.200q, %v", got, err)
			<-over
			return
		}
	}
	d.SetFull(true)
	if err := s.PutResponse("", id, []byte("c")); !store.IsFull(err) {
		t.Fatal(err)
	}
	if got, err := s.ResponseContent(id); err != nil || string(got) != contents[1] {
		t.Errorf("after a write that had no room: %.200q, %v", got, err)
	}
}
