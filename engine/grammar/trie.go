package grammar

// trie is a set of tokens by their bytes, as the list of its nodes in preorder. So a walk over all tokens reads memory
// in order, and leaves out a subtree by a jump.
type trie struct {
	nodes   []trieNode
	deepest int // length of the longest token
}

type trieNode struct {
	end   int32 // the node after the subtree
	token int32 // that ends here, or -1
	depth uint16
	byte  byte
}

// newTrie makes the trie of the tokens with the given ids, which are sorted by their bytes.
func newTrie(tokens [][]byte, ids []int32) *trie {
	t := &trie{}
	var last []byte
	for _, id := range ids {
		b := tokens[id]
		same := 0
		for same < len(last) && same < len(b) && last[same] == b[same] {
			same++
		}
		for i := same; i < len(b); i++ {
			t.nodes = append(t.nodes, trieNode{token: -1, depth: uint16(i + 1), byte: b[i]})
		}
		t.nodes[len(t.nodes)-1].token = id
		last = b
	}
	t.close()
	return t
}

// close finds where the subtrees end.
func (t *trie) close() {
	var open []int // the path to the current node
	for i := range t.nodes {
		depth := int(t.nodes[i].depth)
		for len(open) >= depth {
			t.nodes[open[len(open)-1]].end = int32(i)
			open = open[:len(open)-1]
		}
		open = append(open, i)
		t.deepest = max(t.deepest, depth)
	}
	for _, i := range open {
		t.nodes[i].end = int32(len(t.nodes))
	}
}

// subtrie collects a subset of a trie's tokens, in order, as a trie of its own.
type subtrie struct {
	trie
	from *trie
	path []int32 // the nodes of from above the current one, by depth - 1
	kept int     // how many nodes at the beginning of path are in it already
}

// visit moves on to a node of from.
func (p *subtrie) visit(i int32) {
	above := int(p.from.nodes[i].depth) - 1
	p.path = append(p.path[:above], i)
	p.kept = min(p.kept, above)
}

// add takes the current node's token.
func (p *subtrie) add() {
	for ; p.kept < len(p.path); p.kept++ {
		n := p.from.nodes[p.path[p.kept]]
		n.token = -1
		p.nodes = append(p.nodes, n)
	}
	p.nodes[len(p.nodes)-1].token = p.from.nodes[p.path[len(p.path)-1]].token
}
