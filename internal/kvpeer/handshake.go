package kvpeer

import (
	"errors"
	"fmt"
	"net"

	"github.com/ridge-llm/ridge/engine/kv"
	"github.com/ridge-llm/ridge/internal/handshake"
)

const protocol = "ridge pages 3\n\x00\x00"

var (
	errSecret = errors.New("kvpeer: the other side has another secret, or does not transfer pages; give both the same one (--kv-transfer-secret-file)")
	errSeed   = errors.New("kvpeer: the other side has another model, version or settings (--kv-type, --quantization, the layout, --deterministic, the device), whose pages are of no use here")
)

// call is the handshake of who has dialled: both say the seed of their keys.
func call(conn net.Conn, secret []byte, seed kv.Key) error {
	var theirs kv.Key
	return named(handshake.Call(conn, secret, protocol, seed[:], theirs[:], func() error {
		if theirs != seed {
			return errSeed
		}
		return nil
	}))
}

// answer is the handshake of who has accepted. A caller with another seed ends it.
func answer(conn net.Conn, secret []byte, seed kv.Key) error {
	var theirs kv.Key
	return named(handshake.Answer(conn, secret, protocol, seed[:], theirs[:]))
}

// named is a handshake's error with the flag that it is about.
func named(err error) error {
	if errors.Is(err, handshake.ErrSecret) || errors.Is(err, handshake.ErrSilent) {
		return fmt.Errorf("%w (%w)", errSecret, err)
	}
	return err
}
