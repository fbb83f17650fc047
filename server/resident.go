package server

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server/serving"
)

// Preset is what a model that was created of another has of its own, and PresetMessage a message that its conversations begin with.
type (
	Preset        = serving.Preset
	PresetMessage = serving.PresetMessage
)

// ModelFile is a model that a server of several may load.
type ModelFile struct {
	Name     string   // as clients call it
	Aliases  []string // other names for it
	Path     string   // for ridge.Load
	Bytes    int64    // of its files
	Modified time.Time
	Pinned   bool     // it is loaded at the start and stays
	Named    []string // of Aliases, those that users gave
	Preset   *Preset  // what it was created with; nil: it was not created
	Of       string   // the model that it was created of, or its own files
	Adapter  string   // an adapter that acts on all that it computes; "": there is none
	License  []string
}

// AdapterName is how the adapter of a model is called in it.
func AdapterName(f ModelFile) string { return f.Name + "+adapter" }

// resident is a model with its place in memory, if it has one.
type resident struct {
	name    string
	file    ModelFile // as it was found when it was loaded
	server  *Server   // nil: it is not loaded
	uses    int       // requests under way, and those that wait for it to be loaded
	deleted bool      // there are no files of it any more; it is unloaded once its requests have ended
	leaving bool      // it is to be unloaded once its requests have ended; others wait until it is loaded again
	free    chan struct{}
	loading *loading // nil: nobody waits for it
	keep    time.Duration
	used    time.Time
	timer   *time.Timer // unloads it
}

// loading is a model's way into memory, for which requests wait.
type loading struct {
	file    ModelFile
	done    chan struct{}
	err     error
	waiting int
}

// residents are the models of a server: which are in memory, who waits for others. One is loaded at a time, in the order in which they were first asked for; those that are
// loaded go on meanwhile. What has no room takes the place of the model that was used longest ago: idle ones first, then busy ones, which end what they have.
type residents struct {
	log  *slog.Logger
	load func(ModelFile) (*ridge.Model, error)
	open func(*ridge.Model, ModelFile) *Server
	keep time.Duration // that a model without requests stays; below 0: for ever
	most int           // models that are loaded at once; 0: as many as there is memory for

	ctx  context.Context // ends with close
	stop context.CancelFunc
	turn chan struct{} // capacity 1: held by whoever loads or unloads
	busy sync.WaitGroup

	mu     sync.Mutex
	all    map[string]*resident // by the name of the file
	closed bool
}

// use gives a model to a request, which loads it if need be, and counts the request until release is called. keep, if it is not nil, is how long the model is to stay after it.
func (s *residents) use(ctx context.Context, f ModelFile, keep *time.Duration) (server *Server, release func(), err error) {
	s.mu.Lock()
	x := s.all[f.Name]
	if x == nil {
		x = &resident{name: f.Name, file: f, keep: s.keep}
		s.all[f.Name] = x
	}
	if s.closed {
		s.mu.Unlock()
		return nil, nil, ridge.ErrDraining
	}
	if x.server != nil && !x.leaving && (x.server.Err() != nil || x.uses == 0 && (x.server.Replaced() || x.file.Preset != nil && !x.file.Modified.Equal(f.Modified))) {
		x.leaving = true // it is loaded again, from the files that there are now
	}
	release = sync.OnceFunc(func() { s.release(x, keep) })
	if x.server != nil && !x.leaving {
		defer s.mu.Unlock()
		x.take(1)
		return x.server, release, nil
	}
	l := x.loading
	if l == nil {
		l = &loading{file: f, done: make(chan struct{})}
		x.loading = l
		s.busy.Go(func() { s.bring(x, l) })
	}
	l.waiting++
	s.mu.Unlock()
	select {
	case <-l.done:
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		if isClosed(l.done) {
			if l.err == nil {
				s.releaseLocked(x, keep)
			}
		} else {
			l.waiting--
		}
		return nil, nil, context.Cause(ctx)
	}
	if l.err != nil {
		return nil, nil, l.err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return x.server, release, nil
}

// isClosed reports whether a channel is closed.
func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// take counts requests.
func (x *resident) take(n int) {
	x.uses += n
	if x.timer != nil {
		x.timer.Stop()
		x.timer = nil
	}
}

func (s *residents) release(x *resident, keep *time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseLocked(x, keep)
}

// releaseLocked ends a request's use of a model.
func (s *residents) releaseLocked(x *resident, keep *time.Duration) {
	x.uses--
	x.used = time.Now()
	if keep != nil && !x.deleted {
		x.keep = *keep
	}
	if x.uses > 0 {
		return
	}
	if x.free != nil {
		close(x.free)
		x.free = nil
		return
	}
	s.expireLater(x)
}

// expireLater unloads a model after its time, if nobody has used it by then.
func (s *residents) expireLater(x *resident) {
	if x.file.Pinned || x.keep < 0 || s.closed || x.server == nil {
		return
	}
	x.timer = time.AfterFunc(x.keep, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.closed {
			s.busy.Go(func() { s.expire(x) })
		}
	})
}

// expire unloads a model whose time is over, if nobody uses it.
func (s *residents) expire(x *resident) {
	if !s.begin() {
		return
	}
	defer s.end()
	s.mu.Lock()
	server := x.server
	idle := server != nil && x.uses == 0 && !x.leaving && time.Since(x.used) >= x.keep
	if idle {
		x.server = nil
	}
	s.mu.Unlock()
	if idle {
		s.unload(x, server, "it was not used for a while")
	}
}

// begin waits for the turn to load or unload; false: the server is closed.
func (s *residents) begin() bool {
	select {
	case s.turn <- struct{}{}:
		return true
	case <-s.ctx.Done():
		return false
	}
}

func (s *residents) end() { <-s.turn }

// bring loads a model for the requests that wait for it.
func (s *residents) bring(x *resident, l *loading) {
	err := ridge.ErrClosed
	if s.begin() {
		// The turn ends once those who wait are counted: until then the model looks unused, and the next to load would have it leave.
		defer s.end()
		err = s.loadFor(x, l)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(err, errUnwanted) && l.waiting > 0 { // somebody has come since
		s.busy.Go(func() { s.bring(x, l) })
		return
	}
	x.loading = nil
	if l.err = err; err == nil {
		x.take(l.waiting)
		if x.used = time.Now(); x.uses == 0 {
			s.expireLater(x)
		}
	}
	close(l.done)
}

// errUnwanted is why a model was not loaded for which nobody waits any more.
var errUnwanted = errors.New("nobody waits for the model")

// loadFor loads a model, whose turn it is, and makes room for it.
func (s *residents) loadFor(x *resident, l *loading) error {
	s.mu.Lock()
	server, wanted := x.server, l.waiting > 0 || l.file.Pinned
	s.mu.Unlock()
	if !wanted {
		s.mu.Lock()
		defer s.mu.Unlock()
		if x.leaving = false; x.uses == 0 {
			s.expireLater(x)
		}
		return errUnwanted
	}
	if server != nil {
		if !s.leave(x, "its files have changed, or it has failed") {
			return ridge.ErrClosed
		}
	}
	for s.most > 0 && len(s.loaded()) >= s.most {
		if made, err := s.makeRoom(x); !made {
			return errors.Join(errors.New("as many models are loaded as may be, all of them for good; raise the number, or pin fewer"), err)
		}
	}
	began := time.Now()
	for {
		var m *ridge.Model
		err := serving.Contained(func() (err error) { // the other models answer on, whatever is wrong with a file
			m, err = s.load(l.file)
			return err
		})
		if err == nil {
			server := s.open(m, l.file)
			s.mu.Lock()
			x.server, x.file = server, l.file
			if x.deleted { // it is there again
				x.deleted, x.keep = false, s.keep
			}
			s.mu.Unlock()
			all, _ := server.Occupies()
			s.log.Info("loaded a model", "model", x.name, "took", time.Since(began), "bytes", all, "context", m.Context())
			return nil
		}
		if !errors.Is(err, ridge.ErrMemory) {
			return err
		}
		if made, closed := s.makeRoom(x); !made {
			return errors.Join(err, closed)
		}
	}
}

// placed is a model in memory.
type placed struct {
	*Server
	file    ModelFile
	used    time.Time // the last time
	expires time.Time // zero: it stays
}

// loaded are the models in memory, the last used first.
func (s *residents) loaded() (all []placed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.all {
		if x.server == nil {
			continue
		}
		p := placed{Server: x.server, file: x.file, used: x.used}
		if x.uses > 0 {
			p.used = time.Now()
		}
		if !x.file.Pinned && x.keep >= 0 {
			p.expires = p.used.Add(x.keep)
		}
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b placed) int {
		return cmp.Or(b.used.Compare(a.used), strings.Compare(a.file.Name, b.file.Name))
	})
	return all
}

// makeRoom unloads the model that is used least; false: there is none that may go.
func (s *residents) makeRoom(wanting *resident) (bool, error) {
	s.mu.Lock()
	var least *resident
	for _, x := range s.all {
		if x == wanting || x.server == nil || x.file.Pinned {
			continue
		}
		if least == nil || (x.uses == 0) != (least.uses == 0) && x.uses == 0 || (x.uses == 0) == (least.uses == 0) && x.used.Before(least.used) {
			least = x
		}
	}
	s.mu.Unlock()
	if least == nil {
		return false, nil
	}
	if !s.leave(least, "another model has no room beside it") {
		return false, ridge.ErrClosed
	}
	return true, nil
}

// leave unloads a model once its requests have ended; new ones wait until it is loaded again. False: the server was closed first.
func (s *residents) leave(x *resident, why string) bool {
	s.mu.Lock()
	x.leaving = true
	if x.uses > 0 {
		free := make(chan struct{})
		x.free = free
		s.mu.Unlock()
		select {
		case <-free:
		case <-s.ctx.Done():
			return false
		}
		s.mu.Lock()
	}
	x.take(0)
	server := x.server
	x.server, x.leaving = nil, false
	s.mu.Unlock()
	s.unload(x, server, why)
	return true
}

// unload closes a model that nobody can reach any more.
func (s *residents) unload(x *resident, server *Server, why string) {
	server.Close()
	if err := server.Model.Close(); err != nil {
		s.log.Error("the model was not closed cleanly", "model", x.name, "error", err)
	}
	s.log.Info("unloaded a model", "model", x.name, "why", why)
}

// drain refuses new requests and waits until those under way have ended, or ctx is done.
func (s *residents) drain(ctx context.Context) (err error) {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	for _, x := range s.loaded() {
		err = errors.Join(err, x.Drain(ctx))
	}
	return err
}

// close unloads all models.
func (s *residents) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.busy.Wait()
	for _, x := range s.all { // nothing else is at work on them now
		if x.server != nil {
			x.take(0)
			s.unload(x, x.server, "the server stops")
			x.server = nil
		}
	}
}
