package kv

import "testing"

// TestCrowdedBuckets: prompts made so that a digest without a secret puts all of them into one bucket spread over the table.
func TestCrowdedBuckets(t *testing.T) {
	const nodes, pageSize, vocab = 2048, 4, 1 << 17
	plain := func(hash uint64, tokens []int32) uint64 { // without a secret
		for _, t := range tokens {
			hash = (hash ^ uint64(uint32(t))) * 0x9e3779b97f4a7c15
			hash ^= hash >> 29
		}
		return hash
	}
	var prompts [][]int32
	for a := int32(0); len(prompts) < nodes/2; a++ {
		for b := int32(0); b < 64 && len(prompts) < nodes/2; b++ {
			p := []int32{a % vocab, b, a / vocab, 1}
			if plain(^uint64(0), p)%nodes == 7 {
				prompts = append(prompts, p)
			}
		}
	}
	for name, index := range map[string]Index{"radix": Radix(nodes, pageSize), "hash": HashBlocks(nodes, pageSize)} {
		for i, p := range prompts {
			if !index.Insert(none, 0, p, int32(i)) {
				t.Fatal("the index is full")
			}
		}
		var c *contents
		switch x := index.(type) {
		case *radix:
			c = &x.contents
		case *hashBlocks:
			c = &x.contents
		}
		longest := 0
		for _, node := range c.buckets {
			n := 0
			for ; node != none; node = c.chain[node] {
				n++
			}
			longest = max(longest, n)
		}
		if longest > 40 { // of 1024 in 2048 buckets a bucket has seven or so
			t.Errorf("%s: a bucket has %d of %d nodes", name, longest, len(prompts))
		}
	}
}
