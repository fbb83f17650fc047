package prefix

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestHeld: the tree says of every replica how far it holds a chain, as a plain account with lists does.
func TestHeld(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const replicas = 3
		tree, plain, room := New(), [replicas][]Key{}, [replicas]int{}
		for r := range replicas {
			room[r] = rapid.IntRange(0, 12).Draw(t, "room")
			tree.SetRoom(r, room[r])
		}
		for range rapid.IntRange(1, 60).Draw(t, "operations") {
			r := rapid.IntRange(0, replicas-1).Draw(t, "replica")
			tokens := rapid.SliceOfN(rapid.Int32Range(0, 2), 0, 8).Draw(t, "tokens")
			chain := Tokens(nil, 1, tokens, 1)
			held := &plain[r]
			touch := func(k Key) {
				*held = append(slices.DeleteFunc(*held, func(o Key) bool { return o == k }), k)
			}
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				tree.Cleared(r)
				*held = nil
			case 1:
				for _, k := range chain {
					tree.Removed(r, k)
					*held = slices.DeleteFunc(*held, func(o Key) bool { return o == k })
				}
			case 2:
				room[r] = rapid.IntRange(0, 12).Draw(t, "room")
				tree.SetRoom(r, room[r])
				*held = (*held)[max(0, len(*held)-room[r]):]
			default:
				tree.Sent(r, chain)
				if room[r] == 0 {
					break
				}
				for i := min(len(chain), room[r]) - 1; i >= 0; i-- {
					touch(chain[i])
				}
				*held = (*held)[max(0, len(*held)-room[r]):]
			}
			depth := make([]int, replicas)
			tree.Held(chain, depth)
			for r, d := range depth {
				want := 0
				for want < len(chain) && slices.Contains(plain[r], chain[want]) {
					want++
				}
				if d != want || tree.Keys(r) != len(plain[r]) || !slices.Equal(tree.All(r), plain[r]) {
					t.Fatalf("replica %d holds %d of %v, %d wanted; it has %d keys of %d", r, d, chain, want, tree.Keys(r), len(plain[r]))
				}
			}
		}
	})
}

// TestChain: chains of equal beginnings are equal that far, and whatever differs before a unit changes its key.
func TestChain(t *testing.T) {
	text := bytes.Repeat([]byte("the quick brown fox "), 40)
	seed := Hash(0, "model")
	whole := Text(nil, seed, text)
	if len(whole) != len(text)/Unit {
		t.Fatalf("%d units of %d bytes", len(whole), len(text))
	}
	for at := range text {
		other := bytes.Clone(text)
		other[at] ^= 1
		for i, k := range Text(nil, seed, other) {
			if (k == whole[i]) != (i < at/Unit) {
				t.Fatalf("byte %d differs, and unit %d is the same: %t", at, i, k == whole[i])
			}
		}
	}
	if Text(nil, Hash(0, "model2"), text)[0] == whole[0] || Hash(0, "a") == Hash(0, "a\x00") || Hash(0, "12345678") == Hash(0, "1234567") {
		t.Error("chains of different seeds are the same")
	}
	if seen := Tokens(nil, seed, []int32{1, 2, 3, 4, 5}, 2); len(seen) != 2 || seen[1] != Block(seen[0], []int32{3, 4}) {
		t.Errorf("blocks of tokens: %v", seen)
	}
}

func BenchmarkHeld(b *testing.B) {
	tree := New()
	text := bytes.Repeat([]byte("x"), 16<<10)
	chain := Text(nil, 1, text)
	for r := range 4 {
		tree.SetRoom(r, 1<<16)
		tree.Sent(r, chain[:len(chain)/(r+1)])
	}
	depth := make([]int, 4)
	for b.Loop() {
		chain = Text(chain[:0], 1, text)
		tree.Held(chain, depth)
	}
}
