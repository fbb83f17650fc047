package kvstore

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/ridge-llm/ridge/engine/kv"
	"github.com/ridge-llm/ridge/engine/offload"
	"github.com/ridge-llm/ridge/internal/s3"
)

// Bucket is a bucket of a store with S3's API as a folder of files: an object for each key. Whatever fails or takes too long is given up, and for a while nothing else is asked of the store.
// Objects are removed by the store's own rules.
type Bucket struct {
	name   string
	place  string
	bucket *s3.Bucket
	cancel context.CancelFunc
	ctx    context.Context // ends with the store

	mu    sync.Mutex
	rests time.Time        // nothing is asked before
	has   map[kv.Key]int64 // lengths of objects, as far as this process knows
}

var _ offload.Store = (*Bucket)(nil)

const (
	getTime  = 10 * time.Second // of a whole object
	putTime  = 30 * time.Second
	restFor  = 5 * time.Second // after a failure
	mostHas  = 1 << 18         // keys
	openTime = 10 * time.Second
)

// OpenBucket opens a place such as s3://bucket/prefix, and returns the secret that all who use it have alike (see Secret), made by the first of them.
func OpenBucket(name, place string) (*Bucket, [32]byte, error) {
	var secret [32]byte
	b, err := s3.Open(place)
	if err != nil {
		return nil, secret, fmt.Errorf("kvstore: %w", err)
	}
	x := &Bucket{name: name, place: place, bucket: b, has: map[kv.Key]int64{}}
	x.ctx, x.cancel = context.WithCancel(context.Background())
	ctx, cancel := context.WithTimeout(x.ctx, openTime)
	defer cancel()
	if secret, err = x.secret(ctx); err != nil {
		return nil, secret, errors.Join(fmt.Errorf("kvstore: %s: %w", place, err), x.Close())
	}
	return x, secret, nil
}

// secret reads the secret, or makes it, unless another process does so first.
func (b *Bucket) secret(ctx context.Context) (secret [32]byte, err error) {
	for range 2 {
		file, size, err := b.bucket.Get(ctx, "secret")
		switch {
		case err == nil:
			_, err = io.ReadFull(file, secret[:])
			if err = errors.Join(err, file.Close()); err == nil && size != int64(len(secret)) {
				err = fmt.Errorf("the object secret has %d bytes and not %d; remove all objects, which were kept under another secret", size, len(secret))
			}
			return secret, err
		case !errors.Is(err, s3.ErrNotFound):
			return secret, err
		}
		_, _ = rand.Read(secret[:]) // never fails (crypto/rand)
		if err := b.bucket.Put(ctx, "secret", secret[:], true); err != nil && !errors.Is(err, s3.ErrExists) {
			return secret, err
		}
	}
	return secret, errors.New("the object secret was removed as soon as it was made")
}

// Name implements offload.Store.
func (b *Bucket) Name() string { return b.name }

// Streams is how many objects are read side by side.
func (b *Bucket) Streams() int { return 8 }

func object(key kv.Key) string {
	name := hex.EncodeToString(key[:])
	return name[:2] + "/" + name + suffix
}

// Has implements offload.Store: what is there is found out by reading.
func (b *Bucket) Has(kv.Key) bool { return !b.resting() }

// resting reports whether a failure is so new that nothing is asked of the store.
func (b *Bucket) resting() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Now().Before(b.rests)
}

// failed notes a failure.
func (b *Bucket) failed(err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rests = time.Now().Add(restFor)
	return fmt.Errorf("kvstore: %s: %w", b.place, err)
}

// note notes the length of a key's object.
func (b *Bucket) note(key kv.Key, size int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.has) >= mostHas {
		clear(b.has)
	}
	b.has[key] = size
}

// Read implements offload.Store. An object that is damaged is written anew when its pages are computed again.
func (b *Bucket) Read(key kv.Key, into func(parts []offload.Part) bool) (bool, error) {
	if b.resting() {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(b.ctx, getTime)
	defer cancel()
	file, size, err := b.bucket.Get(ctx, object(key))
	switch {
	case errors.Is(err, s3.ErrNotFound):
		return false, nil
	case err != nil:
		return false, b.failed(err)
	}
	defer file.Close()
	ok, err := readPages(b.place+"/"+object(key), bufio.NewReaderSize(file, 1<<16), size, key, into)
	if damaged := (*damagedError)(nil); errors.As(err, &damaged) {
		b.note(key, -1)
		return false, err
	}
	if err != nil {
		return false, b.failed(err)
	}
	if ok {
		b.note(key, size)
	}
	return ok, nil
}

// Write implements offload.Store.
func (b *Bucket) Write(key kv.Key, parts []offload.Part) (written int64, err error) {
	if b.resting() {
		return 0, fmt.Errorf("kvstore: %s has failed a moment ago", b.place)
	}
	size := fileSize(parts)
	b.mu.Lock()
	old, known := b.has[key]
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(b.ctx, putTime)
	defer cancel()
	if !known {
		if old, err = b.bucket.Size(ctx, object(key)); err != nil && !errors.Is(err, s3.ErrNotFound) {
			return 0, b.failed(err)
		}
	}
	if old >= size {
		b.note(key, old)
		return 0, nil
	}
	body := bytes.NewBuffer(make([]byte, 0, size))
	if err := writeFile(body, key, parts); err != nil {
		return 0, err
	}
	if err := b.bucket.Put(ctx, object(key), body.Bytes(), false); err != nil {
		return 0, b.failed(err)
	}
	b.note(key, size)
	return size, nil
}

// Close implements offload.Store: what is under way ends.
func (b *Bucket) Close() error {
	b.cancel()
	b.bucket.Close()
	return nil
}
