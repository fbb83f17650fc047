package hub

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
)

// chunkSize is what is asked for in one request, in bytes, and what is lost at most of each connection when the program is killed.
const chunkSize = 8 << 20

// journal is a file being downloaded: the file itself, with holes, and beside it a list of the chunks that are done, four
// bytes each. A chunk is listed after it was written, so that whatever is listed is there when the program was
// killed; what a power cut does, the checksum finds.
type journal struct {
	path string // of the blob to be
	size int64
	data *os.File
	list *os.File

	mu   sync.Mutex
	done []bool
	next int // chunks before are done or taken
}

// How the two files are called, after the blob to be.
const (
	dataEnd = ".ridge-part"
	listEnd = ".ridge-done"
)

func (j *journal) dataPath() string { return j.path + dataEnd }
func (j *journal) listPath() string { return j.path + listEnd }

// openJournal opens what there is of a file, or begins it.
func openJournal(path string, size int64) (*journal, error) {
	chunks := int((size + chunkSize - 1) / chunkSize)
	j := &journal{path: path, size: size, done: make([]bool, chunks)}
	var err error
	if j.data, err = os.OpenFile(j.dataPath(), os.O_RDWR|os.O_CREATE, 0o644); err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	if j.list, err = os.OpenFile(j.listPath(), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644); err != nil {
		j.data.Close()
		return nil, fmt.Errorf("hub: %w", err)
	}
	if err := j.restore(); err != nil {
		j.close()
		return nil, err
	}
	return j, nil
}

// restore reads the list, and begins anew if it does not belong to the data.
func (j *journal) restore() error {
	list, err := os.ReadFile(j.listPath())
	if err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	stat, err := j.data.Stat()
	if err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	if stat.Size() != j.size || len(list)%4 != 0 {
		return errors.Join(j.list.Truncate(0), j.data.Truncate(0), j.data.Truncate(j.size))
	}
	for ; len(list) > 0; list = list[4:] {
		if n := binary.LittleEndian.Uint32(list); int64(n) < int64(len(j.done)) && !j.done[n] {
			j.done[n] = true
		}
	}
	return nil
}

// bounds are where chunk i begins and ends.
func (j *journal) bounds(i int) (from, to int64) {
	from = int64(i) * chunkSize
	return from, min(from+chunkSize, j.size)
}

// take is the next chunk that is not taken yet; false when there is none.
func (j *journal) take() (int, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.next < len(j.done) && j.done[j.next] {
		j.next++
	}
	if j.next == len(j.done) {
		return 0, false
	}
	j.next++
	return j.next - 1, true
}

// finish lists a chunk whose bytes have been written.
func (j *journal) finish(i int) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.done[i] {
		return nil
	}
	if _, err := j.list.Write(binary.LittleEndian.AppendUint32(nil, uint32(i))); err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	j.done[i] = true
	return nil
}

// commit makes the data the blob.
func (j *journal) commit() error {
	if err := j.data.Sync(); err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	j.close()
	if err := os.Rename(j.dataPath(), j.path); err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	return forget(j.listPath())
}

// drop forgets all that was downloaded.
func (j *journal) drop() error {
	j.close()
	return errors.Join(forget(j.listPath()), forget(j.dataPath()))
}

func (j *journal) close() {
	j.data.Close()
	j.list.Close()
}
