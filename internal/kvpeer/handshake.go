package kvpeer

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/ridge-llm/ridge/engine/kv"
)

// A connection begins with a handshake in which both sides show that they know the secret, which is not sent. Who calls sends the protocol's name, the seed of its keys and a number
// never used before; who is called answers with a number of its own, its seed and the HMAC of all that under the secret; who calls answers with another HMAC of it.
const (
	protocol  = "ridge pages 1\n\x00\x00"
	nonceLen  = 32
	shakeTime = 5 * time.Second
)

const openingLen = len(protocol) + len(kv.Key{}) + nonceLen

var (
	errSecret = errors.New("kvpeer: the other side has another secret, or does not transfer pages; give both the same one (--kv-transfer-secret-file)")
	errSeed   = errors.New("kvpeer: the other side has another model, version or settings (--kv-type, --quantization, the layout, --deterministic, the device), whose pages are of no use here")
)

func tag(secret []byte, side string, parts ...[]byte) []byte {
	m := hmac.New(sha256.New, secret)
	m.Write([]byte(side))
	for _, p := range parts {
		m.Write(p)
	}
	return m.Sum(nil)
}

// call is the handshake of who has dialled.
func call(conn net.Conn, secret []byte, seed kv.Key) error {
	if err := conn.SetDeadline(time.Now().Add(shakeTime)); err != nil {
		return err
	}
	opening := append(append([]byte(protocol), seed[:]...), random()...)
	if _, err := conn.Write(opening); err != nil {
		return err
	}
	answer := make([]byte, nonceLen+len(seed)+sha256.Size)
	if _, err := io.ReadFull(conn, answer); err != nil {
		return fmt.Errorf("%w (%w)", errSecret, err)
	}
	said := answer[:nonceLen+len(seed)]
	if !hmac.Equal(answer[len(said):], tag(secret, "called", opening, said)) {
		return errSecret
	}
	if kv.Key(said[nonceLen:]) != seed {
		return errSeed
	}
	if _, err := conn.Write(tag(secret, "caller", opening, said)); err != nil {
		return err
	}
	return conn.SetDeadline(time.Time{})
}

// answer is the handshake of who has accepted.
func answer(conn net.Conn, secret []byte, seed kv.Key) error {
	if err := conn.SetDeadline(time.Now().Add(shakeTime)); err != nil {
		return err
	}
	opening := make([]byte, openingLen)
	if _, err := io.ReadFull(conn, opening); err != nil {
		return err
	}
	if string(opening[:len(protocol)]) != protocol {
		return errors.New("kvpeer: a caller that speaks another protocol, or another version of it")
	}
	said := append(random(), seed[:]...)
	if _, err := conn.Write(append(said, tag(secret, "called", opening, said)...)); err != nil {
		return err
	}
	theirs := make([]byte, sha256.Size)
	if _, err := io.ReadFull(conn, theirs); err != nil {
		return fmt.Errorf("%w (%w)", errSecret, err)
	}
	if !hmac.Equal(theirs, tag(secret, "caller", opening, said)) {
		return errSecret
	}
	return conn.SetDeadline(time.Time{})
}

func random() []byte {
	nonce := make([]byte, nonceLen)
	_, _ = rand.Read(nonce) // never fails (crypto/rand)
	return nonce
}
