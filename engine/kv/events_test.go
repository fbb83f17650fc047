package kv

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestEvents: who follows the events has the index, node by node with what is before it, at every moment; hashes are those of any process.
func TestEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const page = 2
		index := Radix
		if rapid.Bool().Draw(t, "hash blocks") {
			index = HashBlocks
		}
		m, err := New(Options{PageSize: page, Groups: []Group{{Pages: rapid.IntRange(4, 12).Draw(t, "pages")}}, Index: index})
		if err != nil {
			t.Fatal(err)
		}
		type node struct {
			before, salt uint64
			tokens       []int32
		}
		known := map[uint64]node{}
		m.Watch(func(e Event) {
			switch e.Kind {
			case Cleared:
				clear(known)
			case Removed:
				if _, ok := known[e.Hash]; !ok {
					t.Fatalf("%x is removed and was not there", e.Hash)
				}
				delete(known, e.Hash)
			case Stored:
				if _, ok := known[e.Before]; e.Before != 0 && !ok || e.Hash != hash(e.Before, e.Salt, e.Tokens) {
					t.Fatalf("%x is stored after %x, which is there: %t", e.Hash, e.Before, ok)
				}
				known[e.Hash] = node{e.Before, e.Salt, slices.Clone(e.Tokens)}
			}
		})
		var open []*Seq
		for range rapid.IntRange(1, 40).Draw(t, "operations") {
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				m.Flush()
			case 1, 2:
				if len(open) > 0 {
					m.Free(open[0])
					open = open[1:]
				}
			default:
				s := new(Seq)
				tokens := rapid.SliceOfN(rapid.Int32Range(0, 1), 1, 8).Draw(t, "tokens")
				m.Open(s, Salt{Own: uint64(rapid.IntRange(0, 1).Draw(t, "salt"))}, tokens)
				if _, ok := m.Append(s, len(tokens)-s.Len(), nil); ok {
					m.Publish(s, tokens)
				}
				open = append(open, s)
			}
			in := 0
			for i, indexed := range m.nodes.indexed {
				if !indexed {
					continue
				}
				in++
				n := known[m.nodes.hash[i]]
				before := uint64(0)
				if b := m.index.Before(int32(i)); b != none {
					before = m.nodes.hash[b]
				}
				if n.before != before || len(n.tokens) != page {
					t.Fatalf("node %d is known as %+v, and comes after %x", i, n, before)
				}
			}
			if in != len(known) {
				t.Fatalf("%d nodes are known of %d", len(known), in)
			}
		}
	})
	if h := hash(0, 0, []int32{1, 2}); h != 0xf7cdcf8edfaaf5c3 { // computed by Python's hashlib
		t.Errorf("the hash is %#x", h)
	}
}
