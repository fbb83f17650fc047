package kv

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

var indexes = []struct {
	name string
	make func(nodes, pageSize int) Index
}{{"radix", Radix}, {"hash blocks", HashBlocks}, {"none", None}}

// machine drives a manager as the engine does, over a naive cache memory: a row of it holds, in place of keys and values, the salt at its position
// and all the tokens up to its own, and a state those of all its sequence's tokens. Whatever is shared, copied, evicted, truncated or swapped, every
// sequence must find in the rows that its tokens look at what it would have computed alone.
type machine struct {
	device, host memory
	running      []*request
	swapped      []*request
}

type request struct {
	Seq
	tokens   []int32 // all it knows; the first Len() have rows
	computed int     // Len() before the last step
	kept     int     // Truncate must work from here on
}

func (r *request) row(at int) string {
	if at < r.salt.From {
		return fmt.Sprint(r.salt.Before, r.tokens[:at+1])
	}
	return fmt.Sprint(r.salt.Own, r.tokens[:at+1])
}

// salts are those of tenants and of adapters that act from a token on.
var salts = []Salt{{Own: 0}, {Own: 1}, {Own: 2, Before: 0, From: 3}, {Own: 3, Before: 0, From: 6}, {Own: 4, Before: 1, From: 4}, {Own: 5, Before: 0, From: 1000}}

const testPageSize = 2

func newMachine(t *rapid.T, groups []Group, slack, statePages int, index func(int, int) Index) *machine {
	x := &machine{}
	for _, side := range []struct {
		memory *memory
		index  func(int, int) Index
	}{{&x.device, index}, {&x.host, None}} {
		m, err := New(Options{PageSize: testPageSize, Groups: groups, Index: side.index, Slack: slack, StatePages: statePages})
		if err != nil {
			t.Fatal(err)
		}
		*side.memory = memory{m: m}
		for _, g := range groups {
			side.memory.rows = append(side.memory.rows, make([]string, g.Pages*testPageSize))
		}
	}
	return x
}

// check asks the managers for their invariants and looks into the rows that the next tokens look at.
func (x *machine) check(t *rapid.T) {
	for _, side := range []struct {
		memory   *memory
		requests []*request
	}{{&x.device, x.running}, {&x.host, x.swapped}} {
		var seqs []*Seq
		for _, r := range side.requests {
			seqs = append(seqs, &r.Seq)
		}
		if err := side.memory.m.Check(seqs...); err != nil {
			t.Fatal(err)
		}
		for _, r := range side.requests {
			if r.Len()%testPageSize != 0 || r.Len() > 0 && !x.windowOfOne() {
				side.memory.checkRows(t, r, r.Len())
			}
		}
	}
}

// windowOfOne reports whether there is a group of which a sequence may hold no page at all between two steps.
func (x *machine) windowOfOne() bool {
	return slices.ContainsFunc(x.device.m.groups, func(g group) bool { return g.window == 1 })
}

// longest is what find should find, by definition: the longest beginning after which no group lacks a page.
func (x *machine) longest(salt Salt, tokens []int32) int {
	m := x.device.m
	for n := (len(tokens) - 1) / testPageSize; n > 0; n-- {
		last, nodes := none, []int32{}
		for i := range n {
			if last = m.index.Find(last, salt.page((i+1)*testPageSize), tokens[i*testPageSize:(i+1)*testPageSize]); last == none {
				break
			}
			nodes = append(nodes, last)
		}
		complete := len(nodes) == n
		for i := range m.groups {
			g := &m.groups[i]
			p := g.firstNeeded(n*testPageSize, testPageSize)
			if g.state {
				complete = complete && m.hasState(nodes[n-1])
				continue
			}
			for ; complete && p < n; p++ {
				complete = g.page[nodes[p]] != none
			}
		}
		if complete {
			return n * testPageSize
		}
	}
	return 0
}

// step chooses some requests, new ones among them, and moves them forward, all in one step.
func (x *machine) step(t *rapid.T) {
	m := x.device.m
	for range rapid.IntRange(0, 2).Draw(t, "new") {
		prompt := rapid.SliceOfN(rapid.Int32Range(0, 1), 1, 14).Draw(t, "prompt")
		x.running = append(x.running, &request{tokens: prompt, Seq: Seq{salt: rapid.SampledFrom(salts).Draw(t, "salt")}})
	}
	for _, r := range x.running {
		m.Trim(&r.Seq)
		r.kept = max(r.kept, r.Len()-m.slack)
	}
	var copies []Copy
	var writes []write
	for _, r := range x.running {
		if rapid.Bool().Draw(t, "chosen") {
			copies, writes = x.advance(t, r, copies, writes)
		}
	}
	copyPages(&x.device, &x.device, copies)
	x.write(t, writes)
	for _, w := range writes { // attention
		x.device.checkRows(t, w.r, w.r.computed)
	}
}

// write is what a step writes for a request: slots of each group.
type write struct {
	r     *request
	slots [][]int32
}

// advance takes pages for some tokens of a request, as many as the manager says that it needs.
func (x *machine) advance(t *rapid.T, r *request, copies []Copy, writes []write) ([]Copy, []write) {
	m := x.device.m
	if rapid.Bool().Draw(t, "snapshot") {
		m.Snapshot(&r.Seq, r.tokens)
	}
	before := r.Len()
	if before == 0 {
		x.open(t, r)
	} else {
		m.Extend(&r.Seq, r.tokens)
	}
	if r.Len() > before {
		r.kept = r.Len()
	}
	if r.Len() == len(r.tokens) {
		r.tokens = append(r.tokens, rapid.Int32Range(0, 1).Draw(t, "sampled"))
	}
	n := rapid.IntRange(1, len(r.tokens)-r.Len()).Draw(t, "tokens")
	need, available, held := m.Need(&r.Seq, n), m.Available(), m.Held(&r.Seq)
	var ok bool
	copied := len(copies)
	if copies, ok = m.Append(&r.Seq, n, copies); ok != need.Fits(available) {
		t.Fatalf("Append said %t; it needed %v of %v pages", ok, need, available)
	}
	if !ok {
		return copies, writes
	}
	took := m.Held(&r.Seq)
	for g := range took {
		took[g] -= held[g]
	}
	for _, c := range copies[copied:] {
		if c.Pages == nil {
			took[c.Group]++
		}
	}
	if took != need {
		t.Fatalf("Append took %v pages; Need said %v", took, need)
	}
	if rapid.Bool().Draw(t, "publish") {
		m.Publish(&r.Seq, r.tokens)
	}
	w := write{r: r}
	for g := range m.Groups() {
		if m.groups[g].state {
			w.slots = append(w.slots, []int32{m.State(&r.Seq, g) * testPageSize})
			continue
		}
		w.slots = append(w.slots, m.Slots(nil, &r.Seq, g, n))
	}
	r.computed = r.Len() - n
	return copies, append(writes, w)
}

// write has a step write.
func (x *machine) write(t *rapid.T, writes []write) {
	m := x.device.m
	for g := range m.Groups() {
		written := map[int32]bool{}
		for _, w := range writes {
			for i, slot := range w.slots[g] {
				if written[slot] {
					t.Fatalf("slot %d of group %d is written twice in one step", slot, g)
				}
				written[slot] = true
				if !m.groups[g].state {
					x.device.rows[g][slot] = w.r.row(w.r.computed + i)
					continue
				}
				if from := w.r.computed; from > 0 && x.device.rows[g][slot] != w.r.row(from-1) {
					t.Fatalf("group %d: the step goes on from state %q, and %q is right", g, x.device.rows[g][slot], w.r.row(from-1))
				}
				x.device.rows[g][slot] = w.r.row(w.r.Len() - 1)
			}
		}
	}
}

// open holds Open to what Match says, and Match to the definition.
func (x *machine) open(t *rapid.T, r *request) {
	m := x.device.m
	found, idle := m.Match(r.salt, r.tokens)
	if want := x.longest(r.salt, r.tokens); found != want {
		t.Fatalf("Match found %d tokens; the index has %d", found, want)
	}
	before := m.Available()
	got, now := m.Open(&r.Seq, r.salt, r.tokens), m.Available()
	for g := range before {
		if before[g] -= now[g]; before[g] != idle[g] {
			t.Fatalf("Open took %v pages; Match said %v", before, idle)
		}
	}
	if got != found {
		t.Fatalf("Open found %d tokens; Match said %d", got, found)
	}
}

// truncate takes tokens back: as many as the slack allows for sure, and others if it works.
func (x *machine) truncate(t *rapid.T) {
	m := x.device.m
	r := draw(t, &x.running)
	if r == nil {
		return
	}
	x.running = append(x.running, r)
	if r.Len() == 0 {
		return
	}
	n := rapid.IntRange(0, r.Len()).Draw(t, "tokens left")
	if !m.Truncate(&r.Seq, n) {
		if n >= r.kept && !slices.ContainsFunc(m.groups, func(g group) bool { return g.state }) {
			t.Fatalf("%d of %d tokens could not be left; those before %d may be gone", n, r.Len(), r.kept)
		}
		return
	}
	r.tokens = r.tokens[:max(n, 1)]
	r.kept = min(r.kept, n)
	for range rapid.IntRange(0, 2).Draw(t, "other tokens") {
		r.tokens = append(r.tokens, rapid.Int32Range(0, 1).Draw(t, "other"))
	}
}

// draw takes one request out of a list, or nil.
func draw(t *rapid.T, list *[]*request) *request {
	if len(*list) == 0 {
		return nil
	}
	i := rapid.IntRange(0, len(*list)-1).Draw(t, "which")
	r := (*list)[i]
	*list = slices.Delete(*list, i, i+1)
	return r
}

func (x *machine) actions() map[string]func(*rapid.T) {
	m := x.device.m
	return map[string]func(*rapid.T){
		"":         x.check,
		"step":     x.step,
		"truncate": x.truncate,
		"free": func(t *rapid.T) {
			if r := draw(t, &x.running); r != nil {
				returns, available := m.Returns(&r.Seq), m.Available()
				m.Free(&r.Seq)
				for g, now := range m.Available() {
					if now-available[g] != returns[g] {
						t.Fatalf("Free made %d pages of group %d available; Returns said %v", now-available[g], g, returns)
					}
				}
			}
		},
		"fork": func(t *rapid.T) {
			if r := draw(t, &x.running); r != nil {
				child := &request{tokens: slices.Clone(r.tokens), kept: r.kept}
				m.Fork(&child.Seq, &r.Seq)
				x.running = append(x.running, r, child)
			}
		},
		"swap out": func(t *rapid.T) {
			if r := draw(t, &x.running); r != nil {
				x.move(&x.device, &x.host, r, &x.running, &x.swapped)
			}
		},
		"swap in": func(t *rapid.T) {
			if r := draw(t, &x.swapped); r != nil {
				x.move(&x.host, &x.device, r, &x.swapped, &x.running)
			}
		},
		"flush": func(t *rapid.T) {
			m.Flush()
			if m.Idle() != (Pages{}) {
				t.Fatalf("%v pages are idle after Flush", m.Idle())
			}
		},
	}
}

func (x *machine) move(from, to *memory, r *request, out, in *[]*request) {
	copies, ok := from.m.Move(&r.Seq, to.m, nil)
	copyPages(from, to, copies)
	r.kept = max(r.kept, r.Len()-from.m.slack)
	if ok {
		*in = append(*in, r)
	} else {
		*out = append(*out, r)
	}
}

func TestManagerMachine(t *testing.T) {
	for _, kind := range []struct {
		name    string
		windows []int // of each group; 0: it keeps all; -1: it is recurrent
	}{{"full", []int{0}}, {"full and window", []int{0, 3}}, {"window first", []int{4, 0}}, {"window", []int{5}}, {"window of one", []int{1, 0}}, {"three", []int{2, 0, 7}}, {"hybrid", []int{0, -1}}, {"recurrent", []int{-1}}, {"four", []int{-1, 3, 0, 7}}} {
		for _, index := range indexes {
			t.Run(kind.name+"/"+index.name, func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) {
					var groups []Group
					for _, w := range kind.windows {
						groups = append(groups, Group{Pages: rapid.IntRange(1, 24).Draw(t, "pages"), Window: max(w, 0), Recurrent: w < 0})
					}
					slack := rapid.IntRange(0, 3).Draw(t, "slack")
					statePages := rapid.IntRange(0, 3).Draw(t, "pages of a stored state")
					t.Repeat(newMachine(t, groups, slack, statePages, index.make).actions())
				})
			})
		}
	}
}
