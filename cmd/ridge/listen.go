package main

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// listenFlags say where a server listens.
type listenFlags struct {
	address string
	host    string
	port    int
}

func (f *listenFlags) add(fl *pflag.FlagSet, address string) {
	fl.StringVar(&f.address, "listen", address, "address to listen on, HOST:PORT")
	fl.StringVar(&f.host, "host", "", "address to listen on, in place of the one in --listen; 0.0.0.0: all")
	fl.IntVar(&f.port, "port", 0, "port to listen on, in place of the one in --listen")
}

// setAddress puts --host and --port into the address, those that were given.
func (f *listenFlags) setAddress(given func(flag string) bool) error {
	if !given("host") && !given("port") {
		return nil
	}
	host, port, err := net.SplitHostPort(f.address)
	if err != nil {
		return fmt.Errorf("--listen: the address %q should be HOST:PORT: %w", f.address, err)
	}
	if given("host") {
		host = strings.Trim(f.host, "[]")
	}
	if given("port") {
		if f.port < 0 || f.port > 65535 {
			return fmt.Errorf("--port is %d; 1 to 65535 is possible, or 0 for any that is free", f.port)
		}
		port = strconv.Itoa(f.port)
	}
	f.address = net.JoinHostPort(host, port)
	return nil
}
