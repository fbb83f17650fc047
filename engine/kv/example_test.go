package kv_test

import (
	"fmt"

	"github.com/ridge-llm/ridge/engine/kv"
)

// Two requests of one step whose prompts begin alike. The second finds what the first is about to compute.
func Example() {
	m, err := kv.New(kv.Options{PageSize: 4, Groups: []kv.Group{{Pages: 8}}, Index: kv.Radix}) // 8 pages of 4 tokens
	if err != nil {
		panic(err)
	}
	prompts := [][]int32{{1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 2, 3, 4, 5, 6, 7, 8, 10, 11}}
	seqs := make([]kv.Seq, len(prompts))
	var copies []kv.Copy
	var slots []int32
	for i, tokens := range prompts {
		seq := &seqs[i]
		cached := m.Open(seq, kv.Salt{}, tokens)
		n := len(tokens) - cached
		var ok bool
		if copies, ok = m.Append(seq, n, copies); !ok {
			panic("the plan counts pages: this cannot be")
		}
		m.Publish(seq, tokens)
		slots = m.Slots(slots[:0], seq, 0, n)
		fmt.Println("cached", cached, "table", m.Table(nil, seq, 0), "slots", slots)
	}

	var second kv.Seq // a second answer to the first prompt
	m.Fork(&second, &seqs[0])
	copies, _ = m.Append(&second, 1, copies)
	fmt.Println("fork", m.Table(nil, &second, 0), "copy", copies[0].From, "to", copies[0].To)

	for _, seq := range []*kv.Seq{&seqs[0], &seqs[1], &second} {
		m.Free(seq)
	}
	fmt.Println("available", m.Available()[0], "of", m.Total()[0], "idle", m.Idle()[0])
	// Output:
	// cached 0 table [0 1 2] slots [0 1 2 3 4 5 6 7 8]
	// cached 8 table [0 1 3] slots [12 13]
	// fork [0 1 4] copy 2 to 4
	// available 8 of 8 idle 2
}
