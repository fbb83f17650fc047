package s3

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"time"
)

// keys are what requests are signed with.
type keys struct {
	id, secret, session string // session: of temporary keys; "": they are none
	region              string
}

const (
	algorithm = "AWS4-HMAC-SHA256"
	stamp     = "20060102T150405Z"
	day       = "20060102"
)

// sign signs a request whose body has a hash, by Signature Version 4 (AWS, "Create a signed AWS API request"). All headers that are set are signed, and the host. path is the
// URI, escaped as it is sent, without a query.
func (k *keys) sign(r *http.Request, service, path, bodyHash string, now time.Time) {
	now = now.UTC()
	r.Header.Set("X-Amz-Date", now.Format(stamp))
	if k.session != "" {
		r.Header.Set("X-Amz-Security-Token", k.session)
	}
	host := r.Host
	if host == "" {
		host = r.URL.Host
	}
	lines, names := []string{"host:" + host}, []string{"host"}
	for name, values := range r.Header {
		name = strings.ToLower(name)
		lines, names = append(lines, name+":"+strings.Join(strings.Fields(strings.Join(values, ",")), " ")), append(names, name)
	}
	slices.Sort(names)
	slices.SortFunc(lines, func(a, b string) int {
		a, _, _ = strings.Cut(a, ":")
		b, _, _ = strings.Cut(b, ":")
		return strings.Compare(a, b)
	})
	signed := strings.Join(names, ";")
	canonical := strings.Join([]string{r.Method, path, "", strings.Join(lines, "\n") + "\n", signed, bodyHash}, "\n")
	scope := strings.Join([]string{now.Format(day), k.region, service, "aws4_request"}, "/")
	text := strings.Join([]string{algorithm, now.Format(stamp), scope, hexHash([]byte(canonical))}, "\n")
	key := []byte("AWS4" + k.secret)
	for _, part := range strings.Split(scope, "/") {
		key = mac(key, part)
	}
	r.Header.Set("Authorization", algorithm+" Credential="+k.id+"/"+scope+", SignedHeaders="+signed+", Signature="+hex.EncodeToString(mac(key, text)))
}

func mac(key []byte, text string) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	return m.Sum(nil)
}

func hexHash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// escape is a path as signatures have it: all bytes but letters, digits, - . _ ~ and / by their numbers.
func escape(path string) string {
	var b strings.Builder
	for i := range len(path) {
		switch c := path[i]; {
		case c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z', c >= '0' && c <= '9', strings.IndexByte("-._~/", c) >= 0:
			b.WriteByte(c)
		default:
			const digits = "0123456789ABCDEF"
			b.Write([]byte{'%', digits[c>>4], digits[c&15]})
		}
	}
	return b.String()
}
