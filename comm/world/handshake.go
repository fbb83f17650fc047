package world

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"

	"github.com/ridge-llm/ridge/internal/handshake"
)

const protocol = "ridge ranks 1\n"

// purpose is what a connection is for.
type purpose struct {
	Rank   uint32 // of the caller
	Group  uint32 // that it is of; control: the connection to rank 0
	Stream uint32
}

// control is the group of connections to rank 0 over which ranks meet.
const control = 1<<32 - 1

var errSecret = errors.New("comm: the other side has another secret, or is no rank of Ridge's; give all ranks the same one (--rank-secret-file)")

// call is the handshake of who has dialled.
func call(conn net.Conn, secret []byte, p purpose) error {
	var says []byte
	for _, n := range []uint32{p.Rank, p.Group, p.Stream} {
		says = binary.LittleEndian.AppendUint32(says, n)
	}
	err := handshake.Call(conn, secret, protocol, says, nil, nil)
	switch {
	case errors.Is(err, handshake.ErrSilent): // it may be a proxy that has nobody behind it yet: whoever calls tries again
		return fmt.Errorf("comm: the other side ends the connection before it answers: it is not there yet, or no rank of this version of Ridge (%w)", err)
	case errors.Is(err, handshake.ErrSecret):
		return errSecret
	}
	return err
}

// answer is the handshake of who has accepted.
func answer(conn net.Conn, secret []byte) (p purpose, err error) {
	var heard [12]byte
	err = handshake.Answer(conn, secret, protocol, nil, heard[:])
	if errors.Is(err, handshake.ErrSecret) {
		err = fmt.Errorf("%w (%w)", errSecret, err)
	}
	if err != nil {
		return p, err
	}
	p.Rank, p.Group, p.Stream = binary.LittleEndian.Uint32(heard[:]), binary.LittleEndian.Uint32(heard[4:]), binary.LittleEndian.Uint32(heard[8:])
	return p, nil
}
