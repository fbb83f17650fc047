package tokenizer

// tokenTrie holds byte strings and finds the leftmost, longest of them in a text.
type tokenTrie struct {
	nodes []trieNode
	first [256]bool // bytes that some string starts with
}

type trieNode struct {
	id    int32 // of the string that ends here, or -1
	child map[byte]int32
}

func (t *tokenTrie) add(s string, id int32) {
	if len(t.nodes) == 0 {
		t.nodes = append(t.nodes, trieNode{id: -1})
	}
	at := int32(0)
	for i := range len(s) {
		n := &t.nodes[at]
		next, ok := n.child[s[i]]
		if !ok {
			if n.child == nil {
				n.child = map[byte]int32{}
			}
			next = int32(len(t.nodes))
			n.child[s[i]] = next
			t.nodes = append(t.nodes, trieNode{id: -1})
		}
		at = next
	}
	// Where two tokens share a form, the lower id stands, so that the order of a map does not show.
	if old := t.nodes[at].id; old < 0 || id < old {
		t.nodes[at].id = id
	}
	t.first[s[0]] = true
}

// longest returns the id and the length of the longest string that s[i:] starts with, or -1.
func (t *tokenTrie) longest(s string, i int) (id int32, length int) {
	id = -1
	if len(t.nodes) == 0 {
		return id, 0
	}
	for j, at := i, int32(0); j < len(s); j++ {
		next, ok := t.nodes[at].child[s[j]]
		if !ok {
			break
		}
		if at = next; t.nodes[at].id >= 0 {
			id, length = t.nodes[at].id, j+1-i
		}
	}
	return id, length
}

// find returns the id and the range of the first string in s at or after byte i, or -1.
func (t *tokenTrie) find(s string, i int) (id int32, start, end int) {
	if len(t.nodes) == 0 {
		return -1, 0, 0
	}
	for ; i < len(s); i++ {
		if t.first[s[i]] {
			if id, n := t.longest(s, i); id >= 0 {
				return id, i, i + n
			}
		}
	}
	return -1, 0, 0
}
