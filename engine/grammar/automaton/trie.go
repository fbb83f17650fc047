package automaton

import "unicode/utf8"

// trie is a set of tokens by their bytes, as the list of its nodes in preorder. So a walk over all tokens reads memory
// in order, and leaves out a subtree by a jump.
type trie struct {
	nodes   []trieNode
	below   []byteKinds // by node: what its subtree consists of, its own byte apart
	tokens  []int32     // in the order of their nodes
	first   []int32     // by node, and behind the last: how many of tokens come before it
	deepest int         // length of the longest token
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

// close finds where the subtrees end and what is in them.
func (t *trie) close() {
	t.below, t.first = make([]byteKinds, len(t.nodes)), make([]int32, len(t.nodes)+1)
	var open []int // the path to the current node
	var path []byte
	leave := func(depth, end int) {
		for len(open) >= depth {
			i := open[len(open)-1]
			open = open[:len(open)-1]
			t.nodes[i].end = int32(end)
			if n := len(open); n > 0 {
				t.below[open[n-1]] |= t.below[i]
			}
		}
		path = path[:len(open)]
	}
	for i, n := range t.nodes {
		leave(int(n.depth), i)
		open, path = append(open, i), append(path, n.byte)
		t.deepest = max(t.deepest, int(n.depth))
		if n.token >= 0 {
			t.tokens = append(t.tokens, n.token)
		}
		t.first[i+1] = int32(len(t.tokens))
		kind, whole := lastKind(path)
		if above := len(open) - 2; above >= 0 {
			t.below[open[above]] |= kind
		}
		if !whole {
			t.below[i] = broken
		}
	}
	leave(1, len(t.nodes))
}

// lastKind is the kind of the last byte of a text, and whether the text ends where a code point does.
func lastKind(text []byte) (kind byteKinds, whole bool) {
	if b := text[len(text)-1]; b < utf8.RuneSelf && (len(text) == 1 || text[len(text)-2] < utf8.RuneSelf) {
		return kindOf[b], true
	}
	rest := text
	for len(rest) > 0 {
		r, n := utf8.DecodeRune(rest)
		if r == utf8.RuneError && n == 1 {
			break
		}
		rest = rest[n:]
	}
	switch b := text[len(text)-1]; {
	case len(rest) > 0 && utf8.FullRune(rest):
		return broken, false
	case b < utf8.RuneSelf:
		return kindOf[b], true
	}
	return wide, len(rest) == 0
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
