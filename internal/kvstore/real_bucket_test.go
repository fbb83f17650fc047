package kvstore

import (
	"bytes"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/engine/kv"
	"github.com/ridge-llm/ridge/engine/offload"
	"github.com/ridge-llm/ridge/internal/s3"
)

// TestRealBucket has a store of somebody else's keep pages: RIDGE_TEST_S3=s3://bucket/prefix, with the variables of AWS's tools. Eight processes' worth of openings at once agree about the secret, an object is
// written by one of those who write it at once, and what is read is what was written.
func TestRealBucket(t *testing.T) {
	place := os.Getenv("RIDGE_TEST_S3")
	if place == "" {
		t.Skip("RIDGE_TEST_S3 names no bucket")
	}
	place = fmt.Sprintf("%s/%d of a+test", place, time.Now().UnixNano())
	const n = 8
	var buckets [n]*Bucket
	var secrets [n][32]byte
	each := func(do func(i int) error) {
		t.Helper()
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() {
				if err := do(i); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if t.Failed() {
			t.FailNow()
		}
	}
	each(func(i int) (err error) {
		buckets[i], secrets[i], err = OpenBucket("shared", place)
		return err
	})
	for i, b := range buckets {
		defer b.Close()
		if secrets[i] != secrets[0] || secrets[i] == [32]byte{} {
			t.Errorf("%d of those who open the place at once have other secrets than the first", i)
		}
	}
	page := bytes.Repeat([]byte("a page "), 150_000)
	read := func(b *Bucket, key byte) (bool, []byte, error) {
		var got []byte
		ok, err := b.Read(kv.Key{key}, func(p []offload.Part) bool {
			got = make([]byte, p[0].Bytes)
			p[0].Pieces = [][]byte{got}
			return true
		})
		return ok, got, err
	}
	if ok, _, err := read(buckets[0], 1); ok || err != nil {
		t.Fatalf("a page that nobody has written: %t, %v", ok, err)
	}
	var written [n]int64
	each(func(i int) (err error) {
		written[i], err = buckets[i].Write(kv.Key{1}, []offload.Part{{Group: 1, Bytes: int64(len(page)), Pieces: [][]byte{page[:1000], page[1000:]}}})
		return err
	})
	each(func(i int) error {
		if ok, got, err := read(buckets[i], 1); !ok || err != nil || !bytes.Equal(got, page) {
			return fmt.Errorf("read by %d: %t, %v, %d bytes", i, ok, err, len(got))
		}
		return nil
	})
	t.Logf("bytes written by those who wrote one page at once: %d", written)
	if m, err := buckets[1].Write(kv.Key{1}, []offload.Part{{Group: 1, Bytes: int64(len(page)), Pieces: [][]byte{page}}}); m != 0 || err != nil {
		t.Errorf("a page that is there is written again: %d bytes, %v", m, err)
	}
	raw, err := s3.Open(place)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	if _, err := raw.Size(t.Context(), "no such object"); err != s3.ErrNotFound {
		t.Errorf("the size of an object that is not there: %v", err)
	}
	if err := raw.Put(t.Context(), "once", []byte("1"), true); err != nil {
		t.Errorf("a new object: %v", err)
	}
	if err := raw.Put(t.Context(), "once", []byte("2"), true); err != s3.ErrExists {
		t.Errorf("an object that is there, which must not be: %v; the store does not look at If-None-Match", err)
	}
}
