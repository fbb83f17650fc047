package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Damaged is a file or a batch whose description Open could not read. It is not part of the store any more.
type Damaged struct {
	Path string // of its description, where it lies now
	Err  error  // what is wrong with it
}

// Damaged is what Open has set aside.
func (s *Store) Damaged() []Damaged { return s.damaged }

// described is what has a description in the store.
type described interface{ identity() string }

func (f File) identity() string  { return f.ID }
func (b Batch) identity() string { return b.ID }

// readDescription reads what is known of an id.
func readDescription[T described](disk Disk, path, id string, kind fs.FileMode) (v T, err error) {
	if !kind.IsRegular() { // reading a FIFO would wait without end
		return v, fmt.Errorf("it is not a regular file (%v)", kind)
	}
	data, err := readFile(disk, path)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return v, err
	}
	if v.identity() != id {
		return v, fmt.Errorf("it describes %q", v.identity())
	}
	return v, nil
}

func readFile(disk Disk, path string) ([]byte, error) {
	f, err := disk.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(f)
	return data, errors.Join(err, f.Close())
}

// setAside moves what belongs to an id out of a folder of the store: its description, and its content or its journals.
func (s *Store) setAside(folder, id string, reason error) error {
	to := filepath.Join(s.dir, "damaged", folder)
	if err := s.disk.MkdirAll(to, 0o700); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	names := []string{id, id + ".json"}
	if folder == "batches" {
		names = []string{id + "." + Output, id + "." + Error, id + ".json"}
	}
	for _, name := range names { // the description last: until it is gone, the next Open goes on with this
		err := s.disk.Rename(filepath.Join(s.dir, folder, name), filepath.Join(to, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("store: setting a damaged description aside: %w", err)
		}
	}
	s.damaged = append(s.damaged, Damaged{filepath.Join(to, id+".json"), reason})
	return nil
}
