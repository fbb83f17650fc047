package world

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// The handshake of every connection: both sides show that they know the secret, which is not sent. Who calls sends the protocol's name, what the connection is for and a
// number never used before; who is called answers with a number of its own and the HMAC of all that under the secret; who calls answers with another HMAC of it.
const (
	protocol  = "ridge ranks 1\n"
	nonceLen  = 32
	shakeTime = 5 * time.Second
)

// purpose is what a connection is for.
type purpose struct {
	Rank   uint32 // of the caller
	Group  uint32 // that it is of; control: the connection to rank 0
	Stream uint32
}

// control is the group of connections to rank 0 over which ranks meet.
const control = 1<<32 - 1

var errSecret = errors.New("comm: the other side has another secret, or is no rank of Ridge's; give all ranks the same one (--rank-secret-file)")

func tag(secret []byte, side string, opening, answer []byte) []byte {
	m := hmac.New(sha256.New, secret)
	m.Write([]byte(side))
	m.Write(opening)
	m.Write(answer)
	return m.Sum(nil)
}

const openingLen = len(protocol) + 12 + nonceLen

// call is the handshake of who has dialled.
func call(conn net.Conn, secret []byte, p purpose) error {
	if err := conn.SetDeadline(time.Now().Add(shakeTime)); err != nil {
		return err
	}
	opening := append(make([]byte, 0, openingLen), protocol...)
	for _, n := range []uint32{p.Rank, p.Group, p.Stream} {
		opening = binary.LittleEndian.AppendUint32(opening, n)
	}
	opening = append(opening, random()...)
	if _, err := conn.Write(opening); err != nil {
		return err
	}
	answer := make([]byte, nonceLen+sha256.Size)
	if _, err := io.ReadFull(conn, answer); err != nil { // it may be a proxy that has nobody behind it yet: whoever calls tries again
		return fmt.Errorf("comm: the other side ends the connection before it answers: it is not there yet, or no rank of this version of Ridge (%w)", err)
	}
	if nonce := answer[:nonceLen]; !hmac.Equal(answer[nonceLen:], tag(secret, "called", opening, nonce)) {
		return errSecret
	} else if _, err := conn.Write(tag(secret, "caller", opening, nonce)); err != nil {
		return err
	}
	return conn.SetDeadline(time.Time{})
}

// answer is the handshake of who has accepted.
func answer(conn net.Conn, secret []byte) (p purpose, err error) {
	if err := conn.SetDeadline(time.Now().Add(shakeTime)); err != nil {
		return p, err
	}
	opening := make([]byte, openingLen)
	if _, err := io.ReadFull(conn, opening); err != nil {
		return p, err
	}
	if string(opening[:len(protocol)]) != protocol {
		return p, errors.New("comm: a caller that speaks another protocol, or another version of it")
	}
	nonce := random()
	if _, err := conn.Write(append(nonce, tag(secret, "called", opening, nonce)...)); err != nil {
		return p, err
	}
	theirs := make([]byte, sha256.Size)
	if _, err := io.ReadFull(conn, theirs); err != nil {
		return p, fmt.Errorf("%w (%w)", errSecret, err)
	}
	if !hmac.Equal(theirs, tag(secret, "caller", opening, nonce)) {
		return p, errSecret
	}
	fields := opening[len(protocol):]
	p.Rank, p.Group, p.Stream = binary.LittleEndian.Uint32(fields), binary.LittleEndian.Uint32(fields[4:]), binary.LittleEndian.Uint32(fields[8:])
	return p, conn.SetDeadline(time.Time{})
}

func random() []byte {
	nonce := make([]byte, nonceLen)
	_, _ = rand.Read(nonce) // never fails (crypto/rand)
	return nonce
}
