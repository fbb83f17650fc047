package kv

import "testing"

// TestWorth: when pages run out, the text goes whose state saves least for each page, by the price and not by age alone.
func TestWorth(t *testing.T) {
	for _, c := range []struct {
		name        string
		price       func(from, to int) float64
		short, long int // tokens found of them afterwards
	}{
		{"tokens", nil, 0, 320},
		{"the short one is dear", func(_, to int) float64 {
			if to == 32 {
				return 1e6
			}
			return 1
		}, 32, 0},
	} {
		m, err := New(Options{PageSize: 16, Groups: []Group{{Pages: 30}, {Pages: 3, Recurrent: true}}, Index: Radix, StatePages: 4, Price: c.price})
		if err != nil {
			t.Fatal(err)
		}
		serve := func(tokens []int32) {
			var s Seq
			m.Open(&s, Salt{}, tokens)
			if _, ok := m.Append(&s, len(tokens)-s.Len(), nil); !ok {
				t.Fatalf("%s: no pages for %d tokens", c.name, len(tokens))
			}
			m.Publish(&s, tokens)
			m.Snapshot(&s, tokens)
			m.Free(&s)
			if err := m.Check(); err != nil {
				t.Fatal(err)
			}
		}
		long, short := text(1, 0, 320), text(2, 0, 32)
		serve(long) // the older one
		serve(short)
		serve(text(3, 0, 144)) // 9 pages, and 8 are free
		if found, _ := m.Match(Salt{}, append(short, 0)); found != c.short {
			t.Errorf("%s: %d tokens of the short text are found, and %d are right", c.name, found, c.short)
		}
		if found, _ := m.Match(Salt{}, append(long, 0)); found != c.long {
			t.Errorf("%s: %d tokens of the long text are found, and %d are right", c.name, found, c.long)
		}
	}
}
