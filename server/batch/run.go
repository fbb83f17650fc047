package batch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ridge-llm/ridge/server/store"
)

// runner runs batches, tenants in round robin, the oldest of each first, some lines of one at a time. They have the lowest priority: a line is
// begun only while no request waits, and half of the places of a step at most go to lines. Finished lines are in the
// batch's journal, so a runner resumes where another was killed.
type runner struct {
	api   *API
	store *store.Store
	ctx   context.Context
	stop  context.CancelFunc
	work  chan struct{} // capacity 1: there may be something to do
	done  chan struct{}

	taken int            // batches so far
	last  map[string]int // by tenant: the value of taken at its last batch

	mu            sync.Mutex
	current       string             // id of the batch under way
	cancelCurrent context.CancelFunc // gives it up
}

const (
	lookAgain = 20 * time.Millisecond // between looks whether requests still wait
	tryAgain  = time.Second           // before what the disk or the engine had no room for
)

func (s *API) startBatches() *runner {
	ctx, stop := context.WithCancel(context.Background())
	r := &runner{api: s, store: s.store, ctx: ctx, stop: stop, work: make(chan struct{}, 1), done: make(chan struct{}), last: map[string]int{}}
	r.wake()
	go r.run()
	return r
}

func (r *runner) wake() {
	select {
	case r.work <- struct{}{}:
	default:
	}
}

// close stops the work; lines in progress are cancelled.
func (r *runner) close() {
	r.stop()
	<-r.done
}

func (r *runner) run() {
	defer close(r.done)
	for {
		select {
		case <-r.work:
		case <-r.ctx.Done():
			return
		}
		for b, ok := r.next(); ok && r.ctx.Err() == nil; b, ok = r.next() {
			if err := r.process(b); err != nil && r.ctx.Err() == nil && !errors.Is(err, errCancelled) {
				r.api.Log.Error("a batch failed and will be retried", "batch", b.ID, "error", err)
				r.sleep(tryAgain)
			}
		}
	}
}

// next is the oldest batch that is not over of the tenant whose last batch is longest ago.
func (r *runner) next() (b store.Batch, ok bool) {
	for _, one := range slices.Backward(r.store.Batches()) {
		if !one.Status.Over() && (!ok || r.last[one.Owner] < r.last[b.Owner]) {
			b, ok = one, true
		}
	}
	if ok {
		r.taken++
		r.last[b.Owner] = r.taken
	}
	return b, ok
}

func (r *runner) sleep(d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.ctx.Done():
	}
}

// cancel ends a batch: the lines that are finished stay finished.
func (r *runner) cancel(id string) (store.Batch, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, err := r.store.Batch(id)
	if err != nil || b.Status.Over() || b.Status == store.Cancelling {
		return b, err
	}
	b.Status, b.Cancelling = store.Cancelling, time.Now().Unix()
	if err := r.store.PutBatch(b); err != nil {
		return b, err
	}
	if r.current == id {
		r.cancelCurrent()
	}
	r.wake()
	return b, nil
}

// put keeps a batch's new state, unless it has been cancelled meanwhile.
func (r *runner) put(b store.Batch) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, err := r.store.Batch(b.ID)
	switch {
	case err != nil:
		return err
	case now.Status == store.Cancelling && !b.Status.Over():
		return errCancelled
	}
	return r.store.PutBatch(b)
}

// errCancelled says that a batch was cancelled while it was validated: its new state is another, with which it is next again.
var errCancelled = errors.New("the batch was cancelled")

// advance takes a batch as far as it goes: to its end, or until it is cancelled.
func (r *runner) process(b store.Batch) error {
	if b.Status == store.Validating {
		ok, err := r.validate(&b)
		if !ok || err != nil {
			return err
		}
	}
	journal, err := r.store.Journal(b.ID)
	if err != nil {
		return err
	}
	defer journal.Close()
	ctx, give := context.WithDeadline(r.ctx, time.Unix(b.Expires, 0))
	defer give()
	r.mu.Lock()
	r.current, r.cancelCurrent = b.ID, give
	now, err := r.store.Batch(b.ID)
	r.mu.Unlock()
	if err != nil {
		return err
	}
	if now.Status == store.InProgress {
		err = r.lines(ctx, &now, journal)
	}
	switch {
	case r.ctx.Err() != nil:
		return nil
	case ctx.Err() == nil && err != nil:
		return err
	}
	return r.finish(now, journal)
}

// validate reads the whole input; false when the batch is over before it has begun.
func (r *runner) validate(b *store.Batch) (bool, error) {
	faults := []store.BatchError{{Code: "no_input", Message: fmt.Sprintf("the input file %s does not exist any more", b.Input)}}
	f, err := r.store.Open(b.Input)
	if err == nil {
		b.Counts.Total, faults = checkInput(f, b.Endpoint)
		f.Close()
	}
	now := time.Now().Unix()
	if b.Status, b.Begun = store.InProgress, now; len(faults) > 0 {
		b.Status, b.Begun, b.Failed, b.Errors = store.Failed, 0, now, &store.Errors{Object: "list", Data: faults}
	}
	if err := r.put(*b); err != nil {
		return false, err
	}
	return b.Status == store.InProgress, nil
}

// lines answers the lines that are not finished yet. Its own goroutine alone writes the journal.
func (r *runner) lines(ctx context.Context, b *store.Batch, journal *store.Journal) error {
	input, err := r.store.Open(b.Input)
	if err != nil {
		return err
	}
	defer input.Close()
	pending, answered := make(chan inputLine), make(chan *finished)
	done := make(map[string]bool, len(journal.Done)) // the journal's own is this goroutine's
	for id := range journal.Done {
		done[id] = true
	}
	owner, failed := b.Owner, make(chan error, 1)
	go func() {
		defer close(pending)
		failed <- feed(ctx, input, done, pending)
	}()
	var workers sync.WaitGroup
	var working atomic.Int64
	var work func()
	work = func() {
		for l := range pending {
			// A server of several models knows how many requests it answers at once when the first line has had one loaded.
			for n := working.Load(); n < int64(r.api.load.Parallel()/2); n = working.Load() {
				if working.CompareAndSwap(n, n+1) {
					workers.Go(work)
				}
			}
			if f := r.answer(ctx, owner, &l); f != nil {
				answered <- f
			}
		}
	}
	working.Store(1)
	workers.Go(work)
	go func() { workers.Wait(); close(answered) }()
	for f := range answered {
		r.write(b, journal, f)
	}
	return <-failed
}

// feed hands out the lines that are not done.
func feed(ctx context.Context, input io.Reader, done map[string]bool, pending chan<- inputLine) error {
	_, err := eachLine(input, func(_ int, line []byte) error {
		var l inputLine
		if err := json.Unmarshal(line, &l); err != nil {
			return err
		}
		if done[l.CustomID] {
			return nil
		}
		select {
		case pending <- l:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return err
}

// answer runs a line once no request waits; nil when the batch is cancelled.
func (r *runner) answer(ctx context.Context, owner string, l *inputLine) *finished {
	for {
		for r.api.load.Waiting() > 0 && ctx.Err() == nil {
			r.sleep(lookAgain)
		}
		f, err := r.api.answerLine(ctx, owner, l)
		switch {
		case err == nil:
			return f
		case ctx.Err() != nil:
			return nil
		}
		r.api.Log.Debug("a line of a batch waits", "line", l.CustomID, "error", err)
		r.sleep(tryAgain)
	}
}

// write puts a finished line into the journal. While there is no room it tries again: nothing that was computed is lost,
// and the batch says what it waits for.
func (r *runner) write(b *store.Batch, journal *store.Journal, f *finished) {
	for r.ctx.Err() == nil {
		err := journal.Append(f.kind, f.line)
		b.Counts.Completed, b.Counts.Failed = journal.Lines(store.Output), journal.Lines(store.Error)
		if b.Errors = nil; err != nil {
			b.Errors = &store.Errors{Object: "list", Data: []store.BatchError{{Code: "disk_full", Message: fmt.Sprintf("finished lines cannot be written until there is room on the disk: %v", err)}}}
		}
		r.show(*b)
		if err == nil {
			return
		}
		r.api.Log.Error("a finished line of a batch cannot be written; it will be retried", "batch", b.ID, "error", err)
		r.sleep(tryAgain)
	}
}

// show lets clients see the counts, without hiding that the batch is being cancelled.
func (r *runner) show(b store.Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now, err := r.store.Batch(b.ID); err == nil {
		now.Counts, now.Errors = b.Counts, b.Errors
		r.store.Show(now)
	}
}

// finish ends a batch whose lines are finished, whose time is over or which was cancelled: the journal becomes files.
func (r *runner) finish(b store.Batch, journal *store.Journal) error {
	r.mu.Lock()
	now, err := r.store.Batch(b.ID)
	r.current = ""
	r.mu.Unlock()
	if err != nil {
		return err
	}
	b.Status, b.Cancelling, b.Errors = now.Status, now.Cancelling, nil
	left := b.Counts.Total - len(journal.Done)
	end, at := store.Completed, &b.Completed
	switch {
	case b.Status == store.Cancelling:
		end, at = store.Cancelled, &b.Cancelled
	case left > 0:
		if err := r.expire(&b, journal); err != nil {
			return err
		}
		end, at = store.Expired, &b.Expired
	}
	b.Counts.Completed, b.Counts.Failed = journal.Lines(store.Output), journal.Lines(store.Error)
	b.Finalizing = time.Now().Unix()
	if b.Output, b.ErrorFile, err = journal.Finish(); err != nil {
		return err
	}
	b.Status, *at = end, time.Now().Unix()
	return r.put(b)
}

// lateCode is the code of lines that there was no time for.
const lateCode = "batch_expired"

// expire writes down that there was no time for the lines that are left.
func (r *runner) expire(b *store.Batch, journal *store.Journal) error {
	input, err := r.store.Open(b.Input)
	if err != nil {
		return err
	}
	defer input.Close()
	var late []store.Line
	_, err = eachLine(input, func(_ int, line []byte) error {
		var l inputLine
		if err := json.Unmarshal(line, &l); err != nil || journal.Done[l.CustomID] {
			return err
		}
		f, err := newFinished(store.Error, l.CustomID, nil, map[string]string{"code": lateCode, "message": "the completion window of the batch ended before this request could be answered"})
		late = append(late, f.line)
		return err
	})
	if err != nil {
		return err
	}
	return journal.Append(store.Error, late...)
}
