package ridge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/engine/adapters"
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

// adapterSet is the adapters that a model knows: all by name, and some in host memory.
type adapterSet struct {
	model *Model
	prog  compile.Runner
	keep  int // in host memory
	ids   atomic.Uint64
	reads sync.WaitGroup // that are under way

	mu      sync.Mutex
	byName  map[string]*loadable
	known   map[string]int         // of each name that there has been: Adapter.ID
	held    map[*loadable]struct{} // those in host memory
	uses    *adapters.Uses
	perByte float64 // what reading one takes, s, as measured
}

// loadable is one adapter. Its numbers come and go.
type loadable struct {
	set              *adapterSet
	name, path       string
	handle           *engine.Adapter
	active, answered atomic.Int64 // requests; those of them that have had a token

	// set.mu is held.
	loading bool
	waiters []func()
	numbers *engine.AdapterNumbers // nil: not in host memory
	err     error
	rank    int
	size    int64 // bytes
}

func newAdapters(m *Model, prog compile.Runner, keep int) *adapterSet {
	return &adapterSet{model: m, prog: prog, keep: keep, byName: map[string]*loadable{}, known: map[string]int{}, held: map[*loadable]struct{}{}, uses: adapters.NewUses(max(8*keep, 64))}
}

func (s *adapterSet) get(name string) *loadable {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byName[name]
}

// checkName refuses names that cannot be told from others in an address or a list.
func (s *adapterSet) checkName(name string) error {
	switch {
	case s.model.limits.Adapters == 0:
		return invalidRequest("the model was loaded without room for adapters; set MaxLoRAs (--max-loras)")
	case name == "" || len(name) > 256 || strings.ContainsAny(name, "/\\\x00\n\r") || strings.TrimSpace(name) != name || name == "." || name == "..":
		return invalidRequest(fmt.Sprintf("%.80q cannot be the name of an adapter: it must have 1 to 256 bytes, no slashes, no line breaks, no spaces at its ends, and be neither . nor ..", name))
	case name == s.model.name:
		return invalidRequest(fmt.Sprintf("%q is the model itself; give the adapter another name", name))
	}
	return nil
}

// newLoadable is an adapter that the set does not know yet.
func (s *adapterSet) newLoadable(name, path string) *loadable {
	a := &loadable{set: s, name: name, path: path}
	a.handle = &engine.Adapter{ID: s.ids.Add(1), Name: name, Fetch: a.fetch, Loaded: a.loaded, Fetching: a.fetching}
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
	numbers, took, err := s.read(path)
	if err != nil {
		return invalidRequest(err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !replace && s.byName[name] != nil { // loaded by another call meanwhile
		return there
	}
	s.drop(s.byName[name])
	s.add(a)
	a.hold(numbers, took)
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
	s.drop(s.byName[name])
	delete(s.byName, name)
	return nil
}

func noAdapter(name string) error {
	return &Error{Kind: ErrNoAdapter, Reason: fmt.Sprintf("there is no adapter %q", name)}
}

func (s *adapterSet) list() []Adapter {
	s.mu.Lock()
	all := make([]Adapter, 0, len(s.byName))
	for _, a := range s.byName {
		active, answered := int(a.active.Load()), int(a.answered.Load())
		all = append(all, Adapter{ID: s.known[a.name], Name: a.name, Path: a.path, Rank: a.rank, Running: answered, Waiting: active - answered, InMemory: a.numbers != nil})
	}
	s.mu.Unlock()
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all
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
			a.note()
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
	for _, c := range all {
		if err != nil {
			c.end()
			continue
		}
		for _, a := range c.adapters { // a step may be under way, before whose end the engine does not see the request
			a.fetch(func() {})
		}
	}
	return public(err)
}
