package kvpeer

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/ridge-llm/ridge/internal/hostmem"
)

// token names a server beside its address: its Unix socket, which has no file (an abstract name, of a network namespace).
type token [16]byte

func (t token) socket() string { return "@ridge-pages-" + hex.EncodeToString(t[:]) }

// listenBeside listens for those of this host; without an error in vain where that cannot be.
func (s *Server) listenBeside() {
	f, err := hostmem.Open()
	if err != nil {
		return // its pages lie where nobody else can map them
	}
	_, _ = rand.Read(s.token[:]) // never fails (crypto/rand)
	l, err := net.Listen("unix", s.token.socket())
	if err != nil {
		_ = f.Close() // nothing was written
		return
	}
	s.local, s.file = l, f
}

// show hands this process's memory over a connection.
func (s *Server) show(conn net.Conn) error {
	_, _, err := conn.(*net.UnixConn).WriteMsgUnix([]byte{full}, syscall.UnixRights(int(s.file.Fd())), nil)
	return err
}

// beside is a link to the same server by its Unix socket, with a view of its memory; the link itself where it has none.
func (p *Peer) beside(l *link) (*link, error) {
	var of token
	if err := l.ask(wantBeside, [32]byte{}); err != nil {
		return l, err
	}
	if said, err := l.r.ReadByte(); err != nil || said == 0 {
		return l, err
	}
	for i := range of {
		var err error
		if of[i], err = l.r.ReadByte(); err != nil {
			return l, err
		}
	}
	conn, err := net.DialTimeout("unix", of.socket(), dialTime)
	if err != nil {
		return l, nil // it is in another network namespace: the address only looks like this host's
	}
	near := &link{Conn: conn}
	if err = call(conn, p.secret, p.seed); err == nil {
		near.view, err = p.see(of, conn.(*net.UnixConn))
	}
	if err != nil {
		return l, errors.Join(err, conn.Close())
	}
	near.r = bufio.NewReaderSize(conn, 1<<16)
	_ = l.Close() // nothing is under way
	return near, nil
}

// see takes the memory of a server that comes over a connection, and maps it unless that was done before.
func (p *Peer) see(of token, conn *net.UnixConn) (*view, error) {
	if err := conn.SetDeadline(time.Now().Add(stalled)); err != nil {
		return nil, err
	}
	said, rights := make([]byte, 1), make([]byte, syscall.CmsgSpace(4))
	_, n, _, _, err := conn.ReadMsgUnix(said, rights)
	if err != nil {
		return nil, err
	}
	messages, err := syscall.ParseSocketControlMessage(rights[:n])
	if err != nil || len(messages) != 1 {
		return nil, errors.Join(errSharing, err)
	}
	fds, err := syscall.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, errors.Join(errSharing, err)
	}
	f := os.NewFile(uintptr(fds[0]), "pages of another process")
	defer f.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, v := range p.views {
		if v.of == of {
			v.uses++
			return v, nil
		}
	}
	m, err := hostmem.Map(f)
	if err != nil {
		return nil, fmt.Errorf("kvpeer: %w", err)
	}
	v := &view{m, of, 1}
	p.views = append(p.views, v)
	return v, nil
}
