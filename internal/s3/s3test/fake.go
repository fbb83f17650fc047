// Package s3test is a store with S3's API for tests: it checks signatures, and fails as it is told to.
package s3test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// The keys and the region that a Server knows: those of the examples in S3's documents.
const (
	ID     = "AKIAIOSFODNN7EXAMPLE"
	Secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
	Region = "us-east-1"
)

// Server is a store.
type Server struct {
	*httptest.Server

	mu      sync.Mutex
	objects map[string][]byte
	fails   bool          // every request
	slow    time.Duration // before every answer
	asked   int
}

// New is an empty store, to which the variables of AWS's tools point.
func New(t *testing.T) *Server {
	t.Helper()
	s := &Server{objects: map[string][]byte{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": ID, "AWS_SECRET_ACCESS_KEY": Secret, "AWS_SESSION_TOKEN": "", "AWS_REGION": Region, "AWS_ENDPOINT_URL_S3": s.URL} {
		t.Setenv(name, value)
	}
	return s
}

// Fail has every request fail, or answered after a time, from now on.
func (s *Server) Fail(fails bool, slow time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails, s.slow = fails, slow
}

// Asked is how many requests have come.
func (s *Server) Asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// Change changes every object.
func (s *Server) Change(how func(path string, body []byte) []byte) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path, body := range s.objects {
		s.objects[path] = how(path, body)
	}
	return len(s.objects)
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	s.mu.Lock()
	s.asked++
	fails, slow := s.fails, s.slow
	s.mu.Unlock()
	select {
	case <-time.After(slow):
	case <-r.Context().Done():
		return
	}
	switch {
	case fails:
		http.Error(w, "<Code>SlowDown</Code>", http.StatusServiceUnavailable)
		return
	case err == nil:
		err = Check(r, body, Secret)
	}
	if err != nil {
		http.Error(w, "<Code>SignatureDoesNotMatch</Code> "+err.Error(), http.StatusForbidden)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	object, ok := s.objects[r.URL.Path]
	switch {
	case r.Method == http.MethodPut && ok && r.Header.Get("If-None-Match") == "*":
		http.Error(w, "<Code>PreconditionFailed</Code>", http.StatusPreconditionFailed)
	case r.Method == http.MethodPut:
		s.objects[r.URL.Path] = body
	case !ok:
		http.Error(w, "<Code>NoSuchKey</Code>", http.StatusNotFound)
	default:
		w.Header().Set("Content-Length", fmt.Sprint(len(object)))
		if r.Method != http.MethodHead {
			_, _ = w.Write(object) // who asked may have gone
		}
	}
}

// Check makes the signature of a request anew, of what has come, and compares.
func Check(r *http.Request, body []byte, secret string) error {
	parts := strings.FieldsFunc(r.Header.Get("Authorization"), func(c rune) bool { return strings.ContainsRune(" ,", c) })
	if len(parts) != 4 || parts[0] != "AWS4-HMAC-SHA256" {
		return fmt.Errorf("the header Authorization has %d parts", len(parts))
	}
	credential := strings.Split(strings.TrimPrefix(parts[1], "Credential="), "/")
	signed := strings.TrimPrefix(parts[2], "SignedHeaders=")
	sum := sha256.Sum256(body)
	if got := r.Header.Get("X-Amz-Content-Sha256"); len(credential) != 5 || got != hex.EncodeToString(sum[:]) {
		return fmt.Errorf("the body's hash is given as %q, the credential has %d parts", got, len(credential))
	}
	text := r.Method + "\n" + r.URL.EscapedPath() + "\n" + r.URL.RawQuery + "\n"
	for _, name := range strings.Split(signed, ";") {
		value := r.Header.Get(name)
		if name == "host" {
			value = r.Host
		}
		text += name + ":" + strings.TrimSpace(value) + "\n"
	}
	text += "\n" + signed + "\n" + hex.EncodeToString(sum[:])
	hashed := sha256.Sum256([]byte(text))
	text = "AWS4-HMAC-SHA256\n" + r.Header.Get("X-Amz-Date") + "\n" + strings.Join(credential[1:], "/") + "\n" + hex.EncodeToString(hashed[:])
	key := []byte("AWS4" + secret)
	for _, part := range append(credential[1:], text) {
		m := hmac.New(sha256.New, key)
		m.Write([]byte(part))
		key = m.Sum(nil)
	}
	if got := strings.TrimPrefix(parts[3], "Signature="); got != hex.EncodeToString(key) {
		return fmt.Errorf("the signature is %s and by hand %x", got, key)
	}
	return nil
}
