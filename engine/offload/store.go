package offload

import "github.com/ridge-llm/ridge/engine/kv"

// Store keeps pages beyond host memory, such as a folder. Its methods may be called by any goroutine, and take their time.
type Store interface {
	// Name is where pages are, for people and metrics: disk, shared.
	Name() string
	// Has reports whether there is something under a key.
	Has(key kv.Key) bool
	// Read reads what is under a key. into says where the bytes of each part go, given the parts' lengths, in as many pieces as it likes, or refuses with false. ok is false where
	// there is nothing, or what there is is damaged; an error is for people.
	Read(key kv.Key, into func(parts []Part) bool) (ok bool, err error)
	// Write keeps parts under a key, unless there is as much already, and returns how many bytes it has written. It has done so whole or not at all.
	Write(key kv.Key, parts []Part) (written int64, err error)
	// Close ends what the store does beside calls.
	Close() error
}

// Peer is another server that computes a prompt, or has computed it. Its methods may be called by any goroutine.
type Peer interface {
	// Read reads what is under the first keys, as many as there are: the first as soon as it is computed, those behind it as far as they are there by then. into is Store's for key number i, in
	// their order. While the other server still computes the first key's prompt waiting is called, at least every second or so; the read ends where it returns false. Keys of which into was
	// called and that are not among the first n are not to be used.
	Read(keys []kv.Key, waiting func() bool, into func(i int, parts []Part) bool) (n int, err error)
	// Release says that nothing more of the prompt will be read.
	Release()
}

// Part is the page of a group.
type Part struct {
	Group  int
	Bytes  int64
	Pieces [][]byte // its memory, of Bytes in all
}

// Origin is where a page that host memory has came from: Memory, or the number of a store from 0.
type Origin int8

// Memory is the device's own memory, and AtPeer another server.
const (
	Memory Origin = -1
	AtPeer Origin = 127
)
