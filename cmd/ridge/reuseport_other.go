//go:build !unix

package main

import (
	"errors"
	"syscall"
)

// reusePort is not possible here.
func reusePort(string, string, syscall.RawConn) error {
	return errors.New("--reuse-port is not possible on this system")
}
