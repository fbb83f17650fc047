//go:build !linux

package kvpeer

import "net"

// token names a server beside its address.
type token [16]byte

// listenBeside has nothing to listen at: no other process maps this one's memory.
func (s *Server) listenBeside() {}

// show is never called.
func (s *Server) show(net.Conn) error { return errSharing }

// beside is the link itself.
func (p *Peer) beside(l *link) (*link, error) { return l, nil }
