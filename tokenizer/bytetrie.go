package tokenizer

import "fmt"

// byteTrie is a trie over bytes laid out for walking: all edges in one hash table, keyed by node and byte.
type byteTrie struct {
	ids   []int32 // node → id of the token that ends there, or -1
	edges pairTable
}

func (t *byteTrie) add(key []byte, id int32) {
	if t.ids == nil {
		t.ids = append(t.ids, -1)
		t.edges = *newPairTable(1024)
	}
	if len(key) == 0 {
		return
	}
	node := int32(0)
	for _, c := range key {
		next := t.child(node, c)
		if next < 0 {
			next = int32(len(t.ids))
			t.ids = append(t.ids, -1)
			t.edges.set(pairKey(node, int32(c)), newMerge(0, next))
		}
		node = next
	}
	t.ids[node] = id
}

// child returns the node that byte c leads to, or -1. The root is node 0.
func (t *byteTrie) child(node int32, c byte) int32 {
	if m := t.edges.get(node, int32(c)); m != noMerge {
		return m.id()
	}
	return -1
}

func (t *byteTrie) id(node int32) int32 { return t.ids[node] }

// byteTokens returns the ids of the tokens <0x00> … <0xFF>, -1 where there is none.
func byteTokens(v *vocab) (ids [256]int32) {
	for b := range ids {
		ids[b] = v.id(fmt.Sprintf("<0x%02X>", b))
	}
	return ids
}
