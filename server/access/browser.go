package access

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/ridge-llm/ridge/server/api"
)

// Browser says which requests that come through a browser are answered on a server without keys: a page of any web site can send
// requests to it, cross-site forms and text/plain bodies without asking first, and by DNS rebinding under the site's own name.
type Browser struct {
	Hosts   []string // names and addresses, without a port, under which the server is known beside loopback
	Origins []string // of pages that may call the server, as cors allows them; "*": all
}

// Check refuses a request whose Host is not a name of the server, or whose Origin is another site.
func (b Browser) Check(r *http.Request) error {
	if slices.Contains(b.Origins, "*") {
		return nil
	}
	if !b.knownHost(r) {
		return refused("host_not_allowed", "the request is for the host %.100q, which is not a name of this server; name it with --allow-host, or use API keys (--api-key-file)", r.Host)
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		// Browsers that send no Origin with a request, as with scripts and images, still say whose page it is from.
		if site := r.Header.Get("Sec-Fetch-Site"); (site == "cross-site" || site == "same-site") && !isLink(r) {
			return refused("origin_not_allowed", "the request is from a page of another site (Sec-Fetch-Site: %s), which may not call this server; allow its origin with --cors, or use API keys (--api-key-file)", site)
		}
		return nil
	}
	if slices.Contains(b.Origins, origin) {
		return nil
	}
	if u, err := url.Parse(origin); err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host) {
		return nil
	}
	return refused("origin_not_allowed", "the request is from a page of %.100q, which may not call this server; allow its origin with --cors, or use API keys (--api-key-file)", origin)
}

// isLink reports whether a request is for a page of its own, in a tab and in no frame: a link on another site leads here, and that site does not see
// what is answered.
func isLink(r *http.Request) bool {
	h := r.Header
	return r.Method == http.MethodGet && h.Get("Sec-Fetch-Mode") == "navigate" && h.Get("Sec-Fetch-Dest") == "document"
}

// knownHost reports whether a request's Host is the server's. An address can only be reached as itself: on a connection that came
// in from elsewhere any address will do, since rebinding needs a name.
func (b Browser) knownHost(r *http.Request) bool {
	host := r.Host
	if host == "" { // HTTP/1.0; every browser sends one
		return true
	}
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") || slices.ContainsFunc(b.Hosts, func(h string) bool { return strings.EqualFold(h, host) }) {
		return true
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	return ip.IsLoopback() || !overLoopback(r)
}

// overLoopback reports whether a request came over the loopback interface, or it is not known over which.
func overLoopback(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return !ok || local.IP.IsLoopback()
}

func refused(code, format string, args ...any) error {
	e := api.Invalid("", format, args...)
	e.Status, e.Kind, e.Code = http.StatusForbidden, "permission_error", code
	return e
}
