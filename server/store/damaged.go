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

// Damaged is a file, a batch or a response whose description Open could not read. It is not part of the store any more.
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
	f, err := disk.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return v, err
	}
	defer f.Close()
	d := json.NewDecoder(f)
	if err := d.Decode(&v); err != nil {
		return v, err
	}
	if r, ok := any(v).(Response); ok {
		return v, errors.Join(r.checkSize(f), identityError(v, id))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return v, errors.New("it goes on behind its end")
	}
	return v, identityError(v, id)
}

func identityError(v described, id string) error {
	if v.identity() != id {
		return fmt.Errorf("it describes %q", v.identity())
	}
	return nil
}

// checkSize refuses a file of another size than that of the description, the end of its line and the content.
func (r Response) checkSize(f DiskFile) error {
	head, err := json.Marshal(r)
	if err != nil {
		return err
	}
	end, err := f.Seek(0, io.SeekEnd)
	if want := int64(len(head)) + 1 + r.Bytes; err == nil && end != want {
		err = fmt.Errorf("it has %d bytes and should have %d", end, want)
	}
	return err
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
