package ridge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/weights/adapter"
)

// ErrNoAdapter refuses what names an adapter that the model does not have, or has no more.
var ErrNoAdapter = errors.New("ridge: there is no such adapter")

// UseAdapter is an adapter of a request, by its name.
type UseAdapter struct {
	Name  string
	Scale float32 // its changes are multiplied by this; 1 is what it was trained for
}

// Adapter is a LoRA adapter that a model knows.
type Adapter struct {
	ID       int // from 0, in the order in which names were first known; it stays that of the name
	Name     string
	Path     string // a PEFT folder or a GGUF file
	Rank     int    // the largest; 0: it has not been read yet
	Running  int    // requests that have had a token
	Waiting  int    // requests that have not
	InMemory bool   // of the host
}

// LoadAdapter reads an adapter, a PEFT folder or a GGUF file, and gives it a name by which requests use it (Params.Adapters). What it asks for
// and the model lacks is refused with an error that names it. With replace an adapter of this name that is there already gives way: requests
// under way finish with the old one.
func (m *Model) LoadAdapter(name, path string, replace bool) error {
	return m.adapters.load(name, path, replace)
}

// AddAdapterDir makes every adapter in a folder, each a folder or a GGUF file of its own, known by its file name, without opening it:
// it is read when the first request uses it. It returns the names, sorted.
func (m *Model) AddAdapterDir(dir string) ([]string, error) { return m.adapters.addDir(dir) }

// UnloadAdapter takes an adapter away. Requests under way finish; new ones get ErrNoAdapter.
func (m *Model) UnloadAdapter(name string) error { return m.adapters.unload(name) }

// Adapters lists the adapters, by name.
func (m *Model) Adapters() []Adapter { return m.adapters.list() }

// MaxAdapters is how many adapters steps may use at once: Options.MaxLoRAs.
func (m *Model) MaxAdapters() int { return m.limits.Adapters }

// HasAdapter reports whether there is an adapter of this name.
func (m *Model) HasAdapter(name string) bool { return m.adapters.get(name) != nil }

// adapterSet is the adapters that a model knows: all by name, and the last used in host memory.
type adapterSet struct {
	model *Model
	slots []*graph.Weight // that adapters fill
	keep  int             // in host memory
	ids   atomic.Uint64

	mu     sync.Mutex
	byName map[string]*loadable
	known  map[string]int // of each name that there has been: Adapter.ID
	clock  int64          // of uses
}

// loadable is one adapter. Its numbers come and go.
type loadable struct {
	set              *adapterSet
	name, path       string
	handle           *engine.Adapter
	active, answered atomic.Int64 // requests; those of them that have had a token

	// set.mu is held.
	used    int64
	loading bool
	waiters []func()
	numbers *engine.AdapterNumbers // nil: not in host memory
	err     error
	rank    int
}

func newAdapters(m *Model, slots []*graph.Weight, keep int) *adapterSet {
	return &adapterSet{model: m, slots: slots, keep: keep, byName: map[string]*loadable{}, known: map[string]int{}}
}

func (s *adapterSet) get(name string) *loadable {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byName[name]
}

// checkName refuses names that cannot be told from others in an address or a list.
func (s *adapterSet) checkName(name string) error {
	switch {
	case len(s.slots) == 0:
		return invalidRequest("the model was loaded without room for adapters; set MaxLoRAs (--max-loras)")
	case name == "" || len(name) > 256 || strings.ContainsAny(name, "/\\\x00\n\r"):
		return invalidRequest(fmt.Sprintf("%q cannot be the name of an adapter: it must have 1 to 256 bytes, no slashes and no line breaks", name))
	}
	return nil
}

// newLoadable is an adapter that the set does not know yet.
func (s *adapterSet) newLoadable(name, path string) *loadable {
	a := &loadable{set: s, name: name, path: path}
	a.handle = &engine.Adapter{ID: s.ids.Add(1), Name: name, Fetch: a.fetch, Loaded: a.loaded}
	return a
}

// add makes an adapter known by its name. The set's mu is held.
func (s *adapterSet) add(a *loadable) {
	s.byName[a.name] = a
	if _, ok := s.known[a.name]; !ok {
		s.known[a.name] = len(s.known)
	}
}

func (s *adapterSet) load(name, path string, replace bool) error {
	if err := s.checkName(name); err != nil {
		return err
	}
	there := invalidRequest(fmt.Sprintf("there is an adapter %q already; unload it first, or replace it", name))
	if !replace && s.get(name) != nil {
		return there
	}
	a := s.newLoadable(name, path)
	numbers, err := s.read(path)
	if err != nil {
		return invalidRequest(err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !replace && s.byName[name] != nil { // loaded by another call meanwhile
		return there
	}
	a.numbers, a.rank = numbers, numbers.Rank
	s.add(a)
	a.touch()
	return nil
}

func (s *adapterSet) addDir(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("ridge: %w", err)
	}
	var names []string
	for _, e := range entries {
		path, name := filepath.Join(dir, e.Name()), strings.TrimSuffix(e.Name(), ".gguf")
		if _, err := os.Stat(filepath.Join(path, "adapter_config.json")); err != nil && name == e.Name() {
			continue
		}
		if err := s.checkName(name); err != nil {
			return nil, err
		}
		s.mu.Lock()
		if s.byName[name] == nil {
			s.add(s.newLoadable(name, path))
		}
		s.mu.Unlock()
		names = append(names, name)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("ridge: %s has no adapters: a folder with adapter_config.json or a .gguf file for each is wanted", dir)
	}
	sort.Strings(names)
	return names, nil
}

func (s *adapterSet) unload(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName[name] == nil {
		return noAdapter(name)
	}
	delete(s.byName, name)
	return nil
}

func noAdapter(name string) error {
	return &Error{Kind: ErrNoAdapter, Reason: fmt.Sprintf("there is no adapter %q", name)}
}

func (s *adapterSet) list() []Adapter {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Adapter
	for _, a := range s.byName {
		active, answered := int(a.active.Load()), int(a.answered.Load())
		all = append(all, Adapter{ID: s.known[a.name], Name: a.name, Path: a.path, Rank: a.rank, Running: answered, Waiting: active - answered, InMemory: a.numbers != nil})
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all
}

// read reads an adapter into host memory; its file is closed then.
func (s *adapterSet) read(path string) (*engine.AdapterNumbers, error) {
	a, err := adapter.Open(path)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	fit, err := s.model.dir.Model.Adapt(a, s.slots)
	if err != nil {
		return nil, err
	}
	n := &engine.AdapterNumbers{Rank: a.Rank, Bytes: 4, Invocation: slices.Clone(a.Invocation), Of: func(w *graph.Weight) *graph.LowRank { return fit[w] }}
	for _, l := range fit {
		// The file may be replaced while requests run.
		l.A.Data, l.B.Data, l.Rows.Data = slices.Clone(l.A.Data), slices.Clone(l.B.Data), slices.Clone(l.Rows.Data)
		n.Alone = n.Alone || l.Columns != nil || len(l.Rows.Data) > 0
		if len(l.A.Data) > 0 {
			n.Bytes = l.A.Format.BlockBytes()
		}
	}
	return n, nil
}

// touch notes that the adapter is used, and drops the numbers of those that were not for longest. The set's mu is held.
func (a *loadable) touch() {
	s := a.set
	s.clock++
	a.used = s.clock
	var held []*loadable
	for _, b := range s.byName {
		if b.numbers != nil && b.active.Load() == 0 && b != a {
			held = append(held, b)
		}
	}
	if len(held) < s.keep {
		return
	}
	sort.Slice(held, func(i, j int) bool { return held[i].used < held[j].used })
	for _, b := range held[:len(held)-s.keep+1] {
		b.numbers = nil
	}
}

// fetch implements engine.Adapter.Fetch.
func (a *loadable) fetch(ready func()) {
	a.set.mu.Lock()
	defer a.set.mu.Unlock()
	a.touch()
	if a.numbers != nil {
		ready()
		return
	}
	a.waiters = append(a.waiters, ready)
	if a.loading {
		return
	}
	a.loading, a.err = true, nil
	go func() {
		numbers, err := a.set.read(a.path)
		a.set.mu.Lock()
		a.loading, a.numbers, a.err = false, numbers, err
		if err == nil {
			a.rank = numbers.Rank
		}
		waiters := a.waiters
		a.waiters = nil
		a.set.mu.Unlock()
		for _, ready := range waiters {
			ready()
		}
	}()
}

// loaded implements engine.Adapter.Loaded.
func (a *loadable) loaded() (engine.AdapterNumbers, bool, error) {
	a.set.mu.Lock()
	defer a.set.mu.Unlock()
	if a.numbers == nil {
		return engine.AdapterNumbers{}, false, a.err
	}
	return *a.numbers, true, nil
}

// attach gives a request its adapters.
func (s *adapterSet) attach(r *engine.Request, uses []UseAdapter) error {
	for _, u := range uses {
		a := s.get(u.Name)
		if a == nil {
			return noAdapter(u.Name)
		}
		if u.Scale != 0 {
			r.Adapters = append(r.Adapters, engine.AdapterUse{Adapter: a.handle, Scale: u.Scale})
		}
	}
	return nil
}

// counted is a request that its adapters count, from before the engine has it until it ends.
type counted struct {
	adapters []*loadable
	answered bool // it has had a token
}

// count counts a request with its adapters. Those that were unloaded or replaced since attach are not listed, and need no count.
func (s *adapterSet) count(r *engine.Request) *counted {
	c := &counted{}
	for _, u := range r.Adapters {
		if a := s.get(u.Name); a != nil && a.handle == u.Adapter {
			a.active.Add(1)
			c.adapters = append(c.adapters, a)
		}
	}
	if len(c.adapters) == 0 {
		return c
	}
	emit, done := r.Emit, r.Done
	r.Emit = func(t Sampled) bool { c.answer(); return emit(t) }
	r.Done = func(f engine.Final) { c.end(); done(f) }
	return c
}

func (c *counted) answer() {
	if c.answered {
		return
	}
	c.answered = true
	for _, a := range c.adapters {
		a.answered.Add(1)
	}
}

func (c *counted) end() {
	for _, a := range c.adapters {
		if a.active.Add(-1); c.answered {
			a.answered.Add(-1)
		}
	}
}

// submit gives requests to the engine.
func (m *Model) submit(ctx context.Context, r engine.Request, siblings ...engine.Request) error {
	all := []*counted{m.adapters.count(&r)}
	for i := range siblings {
		all = append(all, m.adapters.count(&siblings[i]))
	}
	err := m.engine.Submit(ctx, r, siblings...)
	if err != nil {
		for _, c := range all {
			c.end()
		}
	}
	return public(err)
}
