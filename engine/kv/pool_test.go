package kv

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

var indexes = []struct {
	name string
	make func(pages, pageSize int) Index
}{{"radix", Radix}, {"hash blocks", HashBlocks}, {"none", None}}

// machine drives a pool as the engine does, over a naive cache memory: a row of it holds, in place of keys and values,
// the salt and all the tokens up to its own. Whatever is shared, copied, evicted or swapped, every sequence must find
// in its rows what it would have computed alone.
type machine struct {
	device, host memory
	running      []*request
	swapped      []*request
}

type memory struct {
	pool *Pool
	rows []string
}

type request struct {
	Seq
	tokens []int32 // all it knows; the first Len() have rows
}

func (r *request) row(at int) string { return fmt.Sprint(r.salt, r.tokens[:at+1]) }

const testPageSize = 2

func newMachine(t *rapid.T, pages int, index func(int, int) Index) *machine {
	m := &machine{}
	for _, side := range []struct {
		memory *memory
		index  func(int, int) Index
	}{{&m.device, index}, {&m.host, None}} {
		pool, err := New(pages, testPageSize, side.index)
		if err != nil {
			t.Fatal(err)
		}
		*side.memory = memory{pool, make([]string, pages*testPageSize)}
	}
	return m
}

// copyPages carries out copies as the backend would.
func copyPages(from, to *memory, copies []Copy) {
	for _, c := range copies {
		copy(to.rows[c.To*testPageSize:][:testPageSize], from.rows[c.From*testPageSize:][:testPageSize])
	}
}

// check asks the pools for their invariants and looks into every row.
func (m *machine) check(t *rapid.T) {
	for _, side := range []struct {
		memory   *memory
		requests []*request
	}{{&m.device, m.running}, {&m.host, m.swapped}} {
		var seqs []*Seq
		for _, r := range side.requests {
			seqs = append(seqs, &r.Seq)
		}
		if err := side.memory.pool.Check(seqs...); err != nil {
			t.Fatal(err)
		}
		for i, r := range side.requests {
			for at := range r.Len() {
				slot := r.Table()[at/testPageSize]*testPageSize + int32(at%testPageSize)
				if got, want := side.memory.rows[slot], r.row(at); got != want {
					t.Fatalf("request %d, token %d: its row holds %q, want %q", i, at, got, want)
				}
			}
		}
	}
}

// step chooses some requests, new ones among them, and moves them forward, all in one step.
func (m *machine) step(t *rapid.T) {
	pool := m.device.pool
	for range rapid.IntRange(0, 2).Draw(t, "new") {
		prompt := rapid.SliceOfN(rapid.Int32Range(0, 1), 1, 12).Draw(t, "prompt")
		m.running = append(m.running, &request{tokens: prompt, Seq: Seq{salt: rapid.Uint64Range(0, 1).Draw(t, "salt")}})
	}
	var copies []Copy
	type write struct {
		r     *request
		slots []int32
	}
	var writes []write
	for _, r := range m.running {
		if !rapid.Bool().Draw(t, "chosen") {
			continue
		}
		if r.Len() == 0 {
			found, idle := pool.Match(r.salt, r.tokens)
			before := pool.Available()
			if got := pool.Open(&r.Seq, r.salt, r.tokens); got != found || before-pool.Available() != idle {
				t.Fatalf("Open found %d tokens and took %d pages; Match said %d and %d", got, before-pool.Available(), found, idle)
			}
		} else {
			pool.Extend(&r.Seq, r.tokens)
		}
		if r.Len() == len(r.tokens) {
			r.tokens = append(r.tokens, rapid.Int32Range(0, 1).Draw(t, "sampled"))
		}
		n := rapid.IntRange(1, len(r.tokens)-r.Len()).Draw(t, "tokens")
		need, available, held := pool.Need(&r.Seq, n), pool.Available(), len(r.Table())
		var ok bool
		before := len(copies)
		if copies, ok = pool.Append(&r.Seq, n, copies); ok != (need <= available) {
			t.Fatalf("Append said %t; it needed %d of %d pages", ok, need, available)
		}
		if !ok {
			continue
		}
		if took := len(r.Table()) - held + len(copies) - before; took != need {
			t.Fatalf("Append took %d pages; Need said %d", took, need)
		}
		if rapid.Bool().Draw(t, "publish") {
			pool.Publish(&r.Seq, r.tokens)
		}
		writes = append(writes, write{r, pool.Slots(nil, &r.Seq, n)})
	}
	copyPages(&m.device, &m.device, copies)
	written := map[int32]bool{}
	for _, w := range writes {
		for i, slot := range w.slots {
			if written[slot] {
				t.Fatalf("slot %d is written twice in one step", slot)
			}
			written[slot] = true
			m.device.rows[slot] = w.r.row(w.r.Len() - len(w.slots) + i)
		}
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

func (m *machine) actions() map[string]func(*rapid.T) {
	pool := m.device.pool
	return map[string]func(*rapid.T){
		"":     m.check,
		"step": m.step,
		"free": func(t *rapid.T) {
			if r := draw(t, &m.running); r != nil {
				returns, available := pool.Returns(&r.Seq), pool.Available()
				pool.Free(&r.Seq)
				if got := pool.Available() - available; got != returns {
					t.Fatalf("Free returned %d pages; Returns said %d", got, returns)
				}
			}
		},
		"fork": func(t *rapid.T) {
			if r := draw(t, &m.running); r != nil {
				child := &request{tokens: slices.Clone(r.tokens)}
				pool.Fork(&child.Seq, &r.Seq)
				m.running = append(m.running, r, child)
			}
		},
		"swap out": func(t *rapid.T) {
			if r := draw(t, &m.running); r != nil {
				m.move(&m.device, &m.host, r, &m.running, &m.swapped)
			}
		},
		"swap in": func(t *rapid.T) {
			if r := draw(t, &m.swapped); r != nil {
				m.move(&m.host, &m.device, r, &m.swapped, &m.running)
			}
		},
		"flush": func(t *rapid.T) {
			pool.Flush()
			if pool.Idle() != 0 {
				t.Fatalf("%d pages are idle after Flush", pool.Idle())
			}
		},
	}
}

func (m *machine) move(from, to *memory, r *request, out, in *[]*request) {
	copies, ok := from.pool.Move(&r.Seq, to.pool, nil)
	copyPages(from, to, copies)
	if ok {
		*in = append(*in, r)
	} else {
		*out = append(*out, r)
	}
}

func TestPoolMachine(t *testing.T) {
	for _, index := range indexes {
		t.Run(index.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				pages := rapid.IntRange(1, 24).Draw(t, "pages")
				t.Repeat(newMachine(t, pages, index.make).actions())
			})
		})
	}
}
