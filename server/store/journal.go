package store

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Journal is what a batch has done: a line of JSON with a custom_id for each request that is finished, answered
// (output) or refused (error). Append returns once the line is on the disk (write, then fsync). A line that a crash cut
// off in the middle is dropped when the journal is opened again, so each request is there whole or not at all. Once
// finished the two become files by renaming, and no line is ever copied.
type Journal struct {
	store *Store
	id    string
	kinds map[string]*kindOf
	Done  map[string]bool // custom ids of finished requests
}

// The kinds of lines.
const (
	Output = "output"
	Error  = "error"
)

// kindOf is one of a journal's two files.
type kindOf struct {
	file  DiskFile // nil: it has become a file of the store
	size  int64    // of the whole lines
	lines int
}

// Journal opens a batch's journal and reads what is done.
func (s *Store) Journal(id string) (*Journal, error) {
	j := &Journal{store: s, id: id, kinds: map[string]*kindOf{}, Done: map[string]bool{}}
	for _, kind := range []string{Output, Error} {
		k, err := j.open(kind)
		if err != nil {
			return nil, errors.Join(err, j.Close())
		}
		j.kinds[kind] = k
	}
	// A line that is synced is lost all the same if the file's name is not durable.
	if err := syncDir(s.disk, filepath.Join(s.dir, "batches")); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return j, nil
}

// open reads one of the two files and cuts off what is no whole line.
func (j *Journal) open(kind string) (*kindOf, error) {
	path := j.store.journal(j.id, kind)
	if _, err := j.store.File(j.fileID(kind)); err == nil {
		path = j.store.content(j.fileID(kind)) // a crash came between renaming and the batch's last state
		return j.read(path, os.O_RDONLY)
	}
	return j.read(path, os.O_RDWR|os.O_CREATE)
}

func (j *Journal) read(path string, flag int) (*kindOf, error) {
	f, err := j.store.disk.OpenFile(path, flag, 0o600)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	k := &kindOf{file: f}
	lines := bufio.NewReaderSize(f, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break // what is left is no whole line
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("store: %w", err), f.Close())
		}
		var x struct {
			CustomID string `json:"custom_id"`
		}
		if json.Unmarshal(line, &x) != nil {
			break
		}
		j.Done[x.CustomID] = true
		k.size += int64(len(line))
		k.lines++
	}
	if flag == os.O_RDONLY {
		k.file = nil
		return k, f.Close()
	}
	if err := f.Truncate(k.size); err != nil {
		return nil, errors.Join(fmt.Errorf("store: %w", err), f.Close())
	}
	return k, nil
}

// Line is what is written down of a finished request.
type Line struct {
	CustomID string
	Text     []byte // JSON, without the end of the line
}

// Append writes finished requests down. After an error, such as a full disk, the journal is as it was before, and
// Append can be tried again.
func (j *Journal) Append(kind string, lines ...Line) error {
	k := j.kinds[kind]
	if k.file == nil {
		return fmt.Errorf("store: the %s of batch %s is finished already", kind, j.id)
	}
	var text []byte
	for _, l := range lines {
		text = append(append(text, l.Text...), '\n')
	}
	_, err := k.file.WriteAt(text, k.size)
	if err == nil {
		err = k.file.Sync()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("store: writing a finished request: %w", err), k.file.Truncate(k.size))
	}
	k.size += int64(len(text))
	k.lines += len(lines)
	for _, l := range lines {
		j.Done[l.CustomID] = true
	}
	return nil
}

// Lines is how many requests of a kind are finished.
func (j *Journal) Lines(kind string) int { return j.kinds[kind].lines }

// fileID is the id of the file that a journal becomes: always the same, so that doing it twice does no harm.
func (j *Journal) fileID(kind string) string { return "file-" + j.id + "-" + kind }

// Finish makes the journals files of the store and returns their ids; "" for one without lines.
func (j *Journal) Finish() (output, failed string, err error) {
	for kind, id := range map[string]*string{Output: &output, Error: &failed} {
		k := j.kinds[kind]
		if k.lines == 0 {
			err = errors.Join(err, j.store.remove(j.store.journal(j.id, kind)))
			continue
		}
		*id = j.fileID(kind)
		if k.file != nil {
			err = errors.Join(err, j.publish(kind, k))
		} else { // a crash may have come before its old name was removed
			err = errors.Join(err, j.store.remove(j.store.journal(j.id, kind)))
		}
	}
	return output, failed, errors.Join(err, j.Close())
}

func (j *Journal) publish(kind string, k *kindOf) error {
	id := j.fileID(kind)
	// The description first: with it, a journal that a crash leaves behind is found where it was.
	if err := j.store.disk.Link(j.store.journal(j.id, kind), j.store.content(id)); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("store: %w", err)
	}
	b, err := j.store.Batch(j.id)
	if err != nil {
		return err
	}
	f := File{ID: id, Owner: b.Owner, Bytes: k.size, Created: time.Now().Unix(), Name: j.id + "_" + kind + ".jsonl", Purpose: "batch_output"}
	if err := j.store.add(&f); err != nil {
		return err
	}
	return j.store.remove(j.store.journal(j.id, kind))
}

// Close closes the journal; it can be opened again.
func (j *Journal) Close() error {
	var all error
	for _, k := range j.kinds {
		if k.file != nil {
			all = errors.Join(all, k.file.Close())
			k.file = nil
		}
	}
	return all
}
