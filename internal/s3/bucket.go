// Package s3 gets and puts objects of a bucket: of Amazon's S3, or another store with its API, as MinIO, Ceph and Cloudflare's R2 are.
package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// Bucket is the objects of a bucket whose names begin alike.
type Bucket struct {
	endpoint *url.URL // of the bucket
	path     string   // before the names of objects, with a / at both ends
	keys     keys
	client   *http.Client
	now      func() time.Time
}

// Scheme is how places in buckets begin.
const Scheme = "s3://"

var (
	// ErrNotFound is that of an object that is not there, and ErrExists that of one that is, where it must not be.
	ErrNotFound = errors.New("s3: there is no such object")
	ErrExists   = errors.New("s3: there is such an object")
)

const (
	dialTime   = 3 * time.Second
	headerTime = 5 * time.Second
	saidMost   = 300 // bytes of an error's text
)

// Open is a place such as s3://bucket/prefix, with what the variables of AWS's own tools say: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION or AWS_DEFAULT_REGION, and
// AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL of a store that is not Amazon's. Nothing is asked of the store.
func Open(place string) (*Bucket, error) {
	rest, ok := strings.CutPrefix(place, Scheme)
	bucket, prefix, _ := strings.Cut(rest, "/")
	if !ok || bucket == "" || strings.Trim(bucket, "abcdefghijklmnopqrstuvwxyz0123456789.-") != "" {
		return nil, fmt.Errorf("s3: %q is no place in a bucket; s3://BUCKET/PREFIX is", place)
	}
	first := func(names ...string) string {
		for _, n := range names {
			if v := os.Getenv(n); v != "" {
				return v
			}
		}
		return ""
	}
	b := &Bucket{path: "/", now: time.Now}
	b.keys = keys{first("AWS_ACCESS_KEY_ID"), first("AWS_SECRET_ACCESS_KEY"), first("AWS_SESSION_TOKEN"), first("AWS_REGION", "AWS_DEFAULT_REGION")}
	endpoint := first("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
	switch {
	case b.keys.id == "" || b.keys.secret == "":
		return nil, fmt.Errorf("s3: %s needs keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", place)
	case b.keys.region == "" && endpoint == "":
		return nil, fmt.Errorf("s3: %s needs a region: set AWS_REGION", place)
	case b.keys.region == "":
		b.keys.region = "us-east-1"
	}
	if endpoint == "" {
		endpoint = "https://" + bucket + ".s3." + b.keys.region + ".amazonaws.com"
	} else {
		b.path = "/" + bucket + "/"
	}
	var err error
	if b.endpoint, err = url.Parse(endpoint); err != nil || b.endpoint.Host == "" || b.endpoint.Scheme != "http" && b.endpoint.Scheme != "https" || strings.Trim(b.endpoint.Path, "/") != "" {
		return nil, fmt.Errorf("s3: AWS_ENDPOINT_URL is %q; http://HOST:PORT or https://HOST is possible", endpoint)
	}
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		b.path += prefix + "/"
	}
	dialer := net.Dialer{Timeout: dialTime}
	b.client = &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, TLSHandshakeTimeout: dialTime, ResponseHeaderTimeout: headerTime, MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }} // a signature is for one host
	return b, nil
}

// do sends a request and gives the answer of a status that is well.
func (b *Bucket) do(ctx context.Context, method, name string, body []byte, header ...string) (*http.Response, error) {
	path := escape(b.path + name)
	at := *b.endpoint
	at.Path, at.RawPath = b.path+name, path
	r, err := http.NewRequestWithContext(ctx, method, at.String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("s3: %w", err)
	}
	hash := hexHash(body)
	r.Header.Set("X-Amz-Content-Sha256", hash)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	b.keys.sign(r, "s3", path, hash, b.now())
	answer, err := b.client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("s3: %w", err)
	}
	switch answer.StatusCode {
	case http.StatusOK, http.StatusNoContent:
		return answer, nil
	}
	defer answer.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(answer.Body, saidMost)) // what there is of it
	switch answer.StatusCode {
	case http.StatusNotFound:
		return nil, ErrNotFound
	case http.StatusPreconditionFailed, http.StatusConflict:
		return nil, ErrExists
	}
	return nil, fmt.Errorf("s3: %s %s answers %s: %s", method, at.Redacted(), answer.Status, said)
}

// Get is an object and its length. Who has it closes it.
func (b *Bucket) Get(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	answer, err := b.do(ctx, http.MethodGet, name, nil)
	if err != nil {
		return nil, 0, err
	}
	return answer.Body, answer.ContentLength, nil
}

// Size is an object's length.
func (b *Bucket) Size(ctx context.Context, name string) (int64, error) {
	answer, err := b.do(ctx, http.MethodHead, name, nil)
	if err != nil {
		return 0, err
	}
	return answer.ContentLength, answer.Body.Close()
}

// Put makes an object of bytes; fresh: unless there is one of that name.
func (b *Bucket) Put(ctx context.Context, name string, body []byte, fresh bool) error {
	var header []string
	if fresh {
		header = []string{"If-None-Match", "*"}
	}
	answer, err := b.do(ctx, http.MethodPut, name, body, header...)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(answer.Body, saidMost)) // so that the connection is used again
	return errors.Join(err, answer.Body.Close())
}

// Close ends connections that nobody uses.
func (b *Bucket) Close() { b.client.CloseIdleConnections() }
