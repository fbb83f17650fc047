package kvstore

import (
	"bytes"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/engine/kv"
	"github.com/ridge-llm/ridge/engine/offload"
	"github.com/ridge-llm/ridge/internal/s3/s3test"
)

// TestBucket: pages come back as they were, for another process with the same secret; damaged ones are a miss, and are written anew; a store that fails or is slow is left alone for a while.
func TestBucket(t *testing.T) {
	s := s3test.New(t)
	open := func() (*Bucket, [32]byte) {
		t.Helper()
		b, secret, err := OpenBucket("shared", "s3://bucket/some prefix+/kv")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		return b, secret
	}
	one, secret := open()
	two, again := open()
	if secret != again || secret == [32]byte{} {
		t.Error("two processes have two secrets")
	}
	page := bytes.Repeat([]byte("page"), 50_000)
	parts := func() []offload.Part {
		return []offload.Part{{Group: 1, Bytes: int64(len(page)), Pieces: [][]byte{page[:1000], page[1000:]}}}
	}
	read := func(b *Bucket) (bool, []byte, error) {
		var got []byte
		ok, err := b.Read(kv.Key{1}, func(p []offload.Part) bool {
			got = make([]byte, p[0].Bytes)
			p[0].Pieces = [][]byte{got}
			return len(p) == 1 && p[0].Group == 1
		})
		return ok, got, err
	}
	if ok, _, err := read(two); ok || err != nil {
		t.Errorf("before it is written: %t, %v", ok, err)
	}
	if n, err := one.Write(kv.Key{1}, parts()); n < int64(len(page)) || err != nil {
		t.Fatal(n, err)
	}
	if n, err := two.Write(kv.Key{1}, parts()); n != 0 || err != nil {
		t.Errorf("what is there is written again: %d, %v", n, err)
	}
	if ok, got, err := read(two); !ok || err != nil || !bytes.Equal(got, page) {
		t.Errorf("read: %t, %v", ok, err)
	}
	s.Change(func(path string, body []byte) []byte {
		if len(body) > 1000 {
			body = bytes.Clone(body)
			body[len(body)/2] ^= 1
		}
		return body
	})
	if ok, _, err := read(two); ok || err == nil {
		t.Errorf("a damaged object: %t, %v", ok, err)
	}
	if n, err := two.Write(kv.Key{1}, parts()); n == 0 || err != nil {
		t.Errorf("a damaged object is not written anew: %d, %v", n, err)
	}
	s.Fail(true, 0)
	if ok, _, err := read(two); ok || err == nil || two.Has(kv.Key{1}) {
		t.Errorf("a store that fails: %t, %v", ok, err)
	}
	asked := s.Asked()
	if _, err := two.Write(kv.Key{2}, parts()); err == nil || s.Asked() != asked {
		t.Errorf("a store that has failed is asked at once: %v", err)
	}
	s.Fail(false, time.Hour)
	began := time.Now()
	time.AfterFunc(20*time.Millisecond, func() { one.Close() })
	if ok, _, err := read(one); ok || err == nil || time.Since(began) > 5*time.Second {
		t.Errorf("a store that hangs held the end up for %v: %t, %v", time.Since(began), ok, err)
	}
	s.CloseClientConnections()
	t.Setenv("AWS_SECRET_ACCESS_KEY", "another")
	s.Fail(false, 0)
	if _, _, err := OpenBucket("shared", "s3://bucket/kv"); err == nil {
		t.Error("a store that refuses the keys is opened")
	}
}
