package server

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
)

// keys are the digests of the API keys: of equal length, so that comparing takes the same time for all.
type keys [][sha256.Size]byte

func newKeys(texts []string) keys {
	var k keys
	for _, text := range texts {
		k = append(k, sha256.Sum256([]byte(text)))
	}
	return k
}

// allow reports whether a request has one of the keys, or none is needed.
func (k keys) allow(r *http.Request) bool {
	if len(k) == 0 {
		return true
	}
	shown, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !bearer {
		shown = r.Header.Get("X-Api-Key")
	}
	digest := sha256.Sum256([]byte(shown))
	found := 0
	for i := range k {
		found |= subtle.ConstantTimeCompare(digest[:], k[i][:])
	}
	return found == 1
}

// CheckAddress refuses an address that other machines can reach if no API key is set.
func CheckAddress(address string, keys int) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("server: the address %q should be HOST:PORT: %w", address, err)
	}
	ip := net.ParseIP(host)
	if keys > 0 || host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("server: %s can be reached from other machines and there is no API key; set one (--api-key-file), listen on 127.0.0.1, or say --no-auth", address)
}

// cors answers what browsers ask before a page of another origin may call. It does nothing unless origins are allowed.
// done reports that the request was such a question.
func (s *Server) cors(w http.ResponseWriter, r *http.Request) (done bool) {
	origin := r.Header.Get("Origin")
	if origin == "" || !slices.Contains(s.options.Origins, origin) && !slices.Contains(s.options.Origins, "*") {
		return false
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Expose-Headers", "X-Request-Id, Request-Id, Retry-After")
	if r.Method != http.MethodOptions {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
	// Clients send headers of their own (X-Stainless-Lang, Anthropic-Version); those that Ridge does not know do nothing.
	h.Set("Access-Control-Allow-Headers", cmp.Or(r.Header.Get("Access-Control-Request-Headers"), "Authorization, Content-Type"))
	w.WriteHeader(http.StatusNoContent)
	return true
}
