package created

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

var digestPattern = regexp.MustCompile(`^sha256[:-][0-9a-f]{64}$`)

// blob is where the file of a digest is, or would be.
func (s *Store) blob(digest string) (string, error) {
	if !digestPattern.MatchString(digest) {
		return "", fmt.Errorf("created: %.100q is no digest; sha256: and 64 hexadecimal digits are wanted", digest)
	}
	return filepath.Join(s.dir, "blobs", strings.Replace(digest, ":", "-", 1)), nil
}

// HasBlob reports whether a file is there.
func (s *Store) HasBlob(digest string) (bool, error) {
	path, err := s.blob(digest)
	if err != nil {
		return false, err
	}
	if _, err = os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// ErrDigest says that a file is not what its digest says.
var ErrDigest = errors.New("created: the file has another digest")

// PutBlob keeps a file under its digest. What does not have it is refused with ErrDigest, and nothing is kept.
func (s *Store) PutBlob(digest string, r io.Reader) (err error) {
	path, err := s.blob(digest)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("created: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "coming-*")
	if err != nil {
		return fmt.Errorf("created: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(f, sum), r)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("created: %w", err)
	}
	if got := fmt.Sprintf("%x", sum.Sum(nil)); got != digest[len("sha256:"):] {
		return fmt.Errorf("%w: sha256:%s, not %s; it was changed on the way, or cut", ErrDigest, got, digest)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("created: %w", err)
	}
	return nil
}

// BlobPath is where the file of a digest is, which HasBlob says.
func (s *Store) BlobPath(digest string) (string, error) { return s.blob(digest) }

// MakeBlob keeps a file that make writes under the name that it is given, and says its digest.
func (s *Store) MakeBlob(make func(path string) error) (digest string, err error) {
	dir := filepath.Join(s.dir, "blobs")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("created: %w", err)
	}
	folder, err := os.MkdirTemp(dir, "coming-*")
	if err != nil {
		return "", fmt.Errorf("created: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	path := filepath.Join(folder, "model.gguf")
	if err := make(path); err != nil {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("created: %w", err)
	}
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("created: %w", err)
	}
	digest = fmt.Sprintf("sha256:%x", sum.Sum(nil))
	to, err := s.blob(digest)
	if err != nil {
		return "", err
	}
	if err := os.Rename(path, to); err != nil {
		return "", fmt.Errorf("created: %w", err)
	}
	return digest, nil
}

// unused is how long a file stays that no model has: its model may be about to be created.
const unused = 24 * time.Hour

// Prune deletes files that no model has, but those that have come lately.
func (s *Store) Prune() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.prune()
}

func (s *Store) prune() error {
	all, err := s.list()
	if err != nil {
		return err
	}
	needed := map[string]bool{}
	for _, m := range all {
		for _, files := range []map[string]string{m.Files, m.Adapters} {
			for _, digest := range files {
				if path, err := s.blob(digest); err == nil {
					needed[filepath.Base(path)] = true
				}
			}
		}
	}
	entries, err := os.ReadDir(filepath.Join(s.dir, "blobs"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("created: %w", err)
	}
	for _, e := range entries {
		if needed[e.Name()] {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > unused {
			if err := os.RemoveAll(filepath.Join(s.dir, "blobs", e.Name())); err != nil { // a folder is what MakeBlob left when the program was killed
				return fmt.Errorf("created: %w", err)
			}
		}
	}
	return nil
}
