package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/ridge-llm/ridge/internal/regular"
	"github.com/ridge-llm/ridge/internal/size"
	"github.com/ridge-llm/ridge/server"
	"github.com/ridge-llm/ridge/server/access"
)

// readKeys reads the file of --api-key-file, if there is one.
func (f *serveFlags) readKeys() ([]access.Key, error) {
	if f.keyFile == "" {
		return nil, nil
	}
	if err := regular.Check(f.keyFile); err != nil {
		return nil, fmt.Errorf("--api-key-file: %w", err)
	}
	keys, err := access.ReadKeys(f.keyFile)
	if err != nil {
		return nil, fmt.Errorf("--api-key-file: %w", err)
	}
	return keys, nil
}

// certificate is the one of --tls-cert, replaced when the files are read again.
type certificate struct {
	atomic.Pointer[tls.Certificate]
}

// read reads the certificate's files. After an error the one before stays.
func (c *certificate) read(f *serveFlags) error {
	if err := errors.Join(regular.Check(f.tlsCert), regular.Check(f.tlsKey)); err != nil {
		return fmt.Errorf("--tls-cert, --tls-key: %w", err)
	}
	pair, err := tls.LoadX509KeyPair(f.tlsCert, f.tlsKey)
	if err != nil {
		return fmt.Errorf("--tls-cert, --tls-key: %w", err)
	}
	c.Store(&pair)
	return nil
}

// secure is a listener of HTTPS over l, if there is a certificate.
func (f *serveFlags) secure(l net.Listener) (net.Listener, error) {
	if (f.tlsCert == "") != (f.tlsKey == "") {
		return nil, errors.New("--tls-cert and --tls-key need each other; give both")
	}
	if f.tlsCert == "" {
		return l, nil
	}
	if err := f.cert.read(f); err != nil {
		return nil, err
	}
	return tls.NewListener(l, &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"http/1.1"}, // a request a connection at a time: what is under way can be counted by connections
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return f.cert.Load(), nil },
	}), nil
}

func (f *serveFlags) scheme() string {
	if f.tlsCert != "" {
		return "https"
	}
	return "http"
}

// reloadAccess reads the files of keys and of the certificate again. What cannot be read leaves what was there before.
func (f *serveFlags) reloadAccess(s *server.Server) error {
	var errs []error
	if f.keyFile != "" {
		keys, err := f.readKeys()
		if err == nil {
			err = s.SetKeys(keys)
		}
		if err == nil {
			f.server.Keys = keys // of a server of another model
		}
		errs = append(errs, err)
	}
	if f.tlsCert != "" {
		errs = append(errs, f.cert.read(f))
	}
	return errors.Join(errs...)
}

// bytesFlag reads a size of memory or disk.
type bytesFlag int64

// Type implements pflag.Value.
func (*bytesFlag) Type() string { return "size" }

// String implements pflag.Value.
func (b *bytesFlag) String() string { return size.Text(int64(*b)) }

// Set implements pflag.Value.
func (b *bytesFlag) Set(text string) error {
	n, err := size.Parse(text)
	*b = bytesFlag(n)
	return err
}
