package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// writeCertificate writes a self-signed certificate of 127.0.0.1 and its key.
func writeCertificate(t *testing.T, serial int64, certFile, keyFile string) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if c, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestReload serves over TLS: after SIGHUP the keys and the certificate are those that the files have now, and a file that cannot be read
// changes nothing.
func TestReload(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no SIGHUP")
	}
	dir := t.TempDir()
	keys, cert, secret := filepath.Join(dir, "keys"), filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	write := func(text string) {
		if err := os.WriteFile(keys, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	roots := x509.NewCertPool()
	roots.AddCert(writeCertificate(t, 1, cert, secret))
	cmd, lines := startOn(t, dir, "RIDGE_TEST=", "serve", "--data-dir", "off", "--listen", "127.0.0.1:0", "--api-key-file", keys, "--tls-cert", cert, "--tls-key", secret)
	until := func(want string) string {
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatalf("the server ended before it said %q: %v", want, err)
			}
			if strings.Contains(line, want) {
				return line
			}
		}
	}
	url := regexp.MustCompile(`https://[^/]+`).FindString(until("serving"))
	get := func(key string) (status int, serial int64) {
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots}}}
		r, err := http.NewRequest("GET", url+"/v1/models", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "bearer "+key)
		a, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		return a.StatusCode, a.TLS.PeerCertificates[0].SerialNumber.Int64()
	}
	check := func(key string, status int, serial int64) {
		t.Helper()
		if s, n := get(key); s != status || n != serial {
			t.Errorf("key %s: status %d with certificate %d; %d and %d were wanted", key, s, n, status, serial)
		}
	}
	check("one", 200, 1)
	check("two", 401, 1)
	write("two")
	roots.AddCert(writeCertificate(t, 2, cert, secret))
	cmd.Process.Signal(syscall.SIGHUP)
	until("reloaded")
	check("one", 401, 2)
	check("two", 200, 2)
	write("# none")
	cmd.Process.Signal(syscall.SIGHUP)
	until("stays as it was")
	check("two", 200, 2)
	cmd.Process.Signal(os.Interrupt)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
