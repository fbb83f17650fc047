//go:build unix

package main

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// reusePort lets several processes of one user listen on one address.
func reusePort(_, _ string, c syscall.RawConn) error {
	var set error
	err := c.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	})
	return errors.Join(err, set)
}
