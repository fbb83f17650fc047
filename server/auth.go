package server

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"slices"
)

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
func (s *entrance) cors(w http.ResponseWriter, r *http.Request) (done bool) {
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
