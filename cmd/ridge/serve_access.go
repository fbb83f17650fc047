package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"

	"github.com/spf13/pflag"

	"github.com/ridge-llm/ridge/internal/regular"
	"github.com/ridge-llm/ridge/internal/size"
	"github.com/ridge-llm/ridge/server/access"
)

// accessFlags say who may call a server, and over what.
type accessFlags struct {
	apiKeys []string
	keyFile string
	tlsCert string
	tlsKey  string
	noAuth  bool
	cert    certificate
}

func (f *accessFlags) add(fl *pflag.FlagSet) {
	fl.StringArrayVar(&f.apiKeys, "api-key", nil, "API key that clients must send; can be given several times. Other users of this machine can see it in the list of processes: RIDGE_API_KEY or --api-key-file hide it")
	fl.StringVar(&f.keyFile, "api-key-file", "", "file with API keys, one a line: SECRET [name=TENANT] [requests=N] [tokens=N] [parallel=N] [admin]; requests and tokens are per minute, parallel is requests at once; clients must send one of the keys")
	fl.StringVar(&f.tlsCert, "tls-cert", "", "file with the certificate chain (PEM) to serve HTTPS with; needs --tls-key")
	fl.StringVar(&f.tlsKey, "tls-key", "", "file with the private key (PEM) of --tls-cert")
	fl.BoolVar(&f.noAuth, "no-auth", false, "allow requests from other machines without a key")
}

// page is the address of the web page, as a browser on this machine takes it.
func (f *serveFlags) page(l net.Listener) string {
	host, port, err := net.SplitHostPort(l.Addr().String())
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsUnspecified() {
		return f.scheme() + "://" + l.Addr().String() + "/"
	}
	return f.scheme() + "://localhost:" + port + "/"
}

// readKeys reads the file of --api-key-file, if there is one, and those of --api-key.
func (f *accessFlags) readKeys() (all []access.Key, err error) {
	for _, secret := range f.apiKeys {
		if secret == "" || strings.ContainsAny(secret, " \t\n") {
			return nil, errors.New("--api-key is empty or has spaces; a key is one word")
		}
		key := access.NewKey(secret)
		key.Admin = true // whoever starts the server may see what it does
		all = append(all, key)
	}
	if f.keyFile == "" {
		return all, nil
	}
	if err := regular.Check(f.keyFile); err != nil {
		return nil, fmt.Errorf("--api-key-file: %w", err)
	}
	keys, err := access.ReadKeys(f.keyFile)
	if err != nil {
		return nil, fmt.Errorf("--api-key-file: %w", err)
	}
	return append(all, keys...), nil
}

// certificate is the one of --tls-cert, replaced when the files are read again.
type certificate struct {
	atomic.Pointer[tls.Certificate]
}

// read reads the certificate's files. After an error the one before stays.
func (c *certificate) read(f *accessFlags) error {
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
func (f *accessFlags) secure(l net.Listener) (net.Listener, error) {
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

func (f *accessFlags) scheme() string {
	if f.tlsCert != "" {
		return "https"
	}
	return "http"
}

// keySetter is a server whose keys can be replaced.
type keySetter interface{ SetKeys([]access.Key) error }

// reload reads the files of keys and of the certificate again; keys are what s has then. What cannot be read leaves what was there before.
func (f *accessFlags) reload(s keySetter) (keys []access.Key, err error) {
	var errs []error
	if f.keyFile != "" {
		keys, err = f.readKeys()
		if err == nil {
			err = s.SetKeys(keys)
		}
		if err != nil {
			keys = nil
		}
		errs = append(errs, err)
	}
	if f.tlsCert != "" {
		errs = append(errs, f.cert.read(f))
	}
	return keys, errors.Join(errs...)
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
