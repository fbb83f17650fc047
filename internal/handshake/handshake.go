// Package handshake begins connections between processes that share a secret: both sides show that they know it, and it is not sent. Who calls sends the protocol's name, what it
// has to say and a number never used before; who is called answers with a number of its own, what it has to say and the HMAC-SHA256 of all that under the secret; who calls
// answers with another HMAC of it. What is sent afterwards is neither encrypted nor authenticated.
package handshake

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

const (
	nonceLen = 32
	// Timeout is the longest that a handshake takes.
	Timeout = 5 * time.Second
)

var (
	// ErrSecret is that of a side that does not know the secret.
	ErrSecret = errors.New("handshake: the other side has another secret")
	// ErrSilent is that of a connection that ends before who is called has answered.
	ErrSilent = errors.New("handshake: the other side ends the connection before it answers")
	// ErrProtocol is that of a caller that speaks another protocol.
	ErrProtocol = errors.New("handshake: a caller that speaks another protocol, or another version of it")
)

func tag(secret []byte, side string, opening, answer []byte) []byte {
	m := hmac.New(sha256.New, secret)
	m.Write([]byte(side))
	m.Write(opening)
	m.Write(answer)
	return m.Sum(nil)
}

func nonce() []byte {
	n := make([]byte, nonceLen)
	_, _ = rand.Read(n) // never fails (crypto/rand)
	return n
}

// Call is the handshake of who has dialled: it says so many bytes, and is told as many as len(heard). accept says whether what was heard will do, before the other side is told that
// this one knows the secret; nil: it does. It takes 5 s at most, and leaves the connection without a deadline.
func Call(conn net.Conn, secret []byte, protocol string, says, heard []byte, accept func() error) error {
	if err := conn.SetDeadline(time.Now().Add(Timeout)); err != nil {
		return err
	}
	opening := append(append([]byte(protocol), says...), nonce()...)
	if _, err := conn.Write(opening); err != nil {
		return err
	}
	answer := make([]byte, nonceLen+len(heard)+sha256.Size)
	if _, err := io.ReadFull(conn, answer); err != nil {
		return fmt.Errorf("%w (%w)", ErrSilent, err)
	}
	said := answer[:nonceLen+len(heard)]
	if !hmac.Equal(answer[len(said):], tag(secret, "called", opening, said)) {
		return ErrSecret
	}
	copy(heard, said[nonceLen:])
	if accept != nil {
		if err := accept(); err != nil {
			return err
		}
	}
	if _, err := conn.Write(tag(secret, "caller", opening, said)); err != nil {
		return err
	}
	return conn.SetDeadline(time.Time{})
}

// Answer is the handshake of who has accepted: it is told as many bytes as len(heard), and says others. heard is the caller's only if there is no error.
func Answer(conn net.Conn, secret []byte, protocol string, says, heard []byte) error {
	if err := conn.SetDeadline(time.Now().Add(Timeout)); err != nil {
		return err
	}
	opening := make([]byte, len(protocol)+len(heard)+nonceLen)
	if _, err := io.ReadFull(conn, opening); err != nil {
		return err
	}
	if string(opening[:len(protocol)]) != protocol {
		return ErrProtocol
	}
	said := append(nonce(), says...)
	if _, err := conn.Write(append(said, tag(secret, "called", opening, said)...)); err != nil {
		return err
	}
	theirs := make([]byte, sha256.Size)
	if _, err := io.ReadFull(conn, theirs); err != nil {
		return fmt.Errorf("%w (%w)", ErrSecret, err)
	}
	if !hmac.Equal(theirs, tag(secret, "caller", opening, said)) {
		return ErrSecret
	}
	copy(heard, opening[len(protocol):])
	return conn.SetDeadline(time.Time{})
}
