package kvstore

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/ridge-llm/ridge/engine/kv"
	"github.com/ridge-llm/ridge/engine/offload"
	"github.com/ridge-llm/ridge/internal/regular"
)

// A file is, all numbers little-endian:
//
//	 8 bytes  magic and version
//	32 bytes  key
//	 4 bytes  number of parts
//	16 bytes  for each: group (4), length (8), CRC-32C of its bytes (4)
//	 4 bytes  CRC-32C of all before
//	          the parts' bytes, one behind the other
const magic = "RIDGEKV1"

const (
	headBytes = 8 + 32 + 4
	partBytes = 16
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// damagedError says what is wrong with a file.
type damagedError struct{ path, reason string }

func (e *damagedError) Error() string {
	return fmt.Sprintf("kvstore: %s is damaged (%s), and is taken for a miss", e.path, e.reason)
}

// fileSize is how long the file of these parts is.
func fileSize(parts []offload.Part) int64 {
	n := int64(headBytes + partBytes*len(parts) + 4)
	for _, p := range parts {
		n += p.Bytes
	}
	return n
}

// writeFile writes a whole file.
func writeFile(file io.Writer, key kv.Key, parts []offload.Part) error {
	head := append([]byte(magic), key[:]...)
	head = binary.LittleEndian.AppendUint32(head, uint32(len(parts)))
	for _, p := range parts {
		sum := uint32(0)
		for _, piece := range p.Pieces {
			sum = crc32.Update(sum, castagnoli, piece)
		}
		head = binary.LittleEndian.AppendUint32(head, uint32(p.Group))
		head = binary.LittleEndian.AppendUint64(head, uint64(p.Bytes))
		head = binary.LittleEndian.AppendUint32(head, sum)
	}
	head = binary.LittleEndian.AppendUint32(head, crc32.Checksum(head, castagnoli))
	w := bufio.NewWriterSize(file, 1<<18)
	if _, err := w.Write(head); err != nil {
		return err
	}
	for _, p := range parts {
		for _, piece := range p.Pieces {
			if _, err := w.Write(piece); err != nil {
				return err
			}
		}
	}
	return w.Flush()
}

// readFile reads the file of a key to where into says.
func readFile(path string, key kv.Key, into func(parts []offload.Part) bool) (bool, error) {
	file, err := regular.Open(path)
	if err != nil {
		return false, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return false, err
	}
	return readPages(path, bufio.NewReaderSize(file, 1<<16), info.Size(), key, into)
}

// readPages reads what a file of so many bytes holds.
func readPages(path string, r io.Reader, size int64, key kv.Key, into func(parts []offload.Part) bool) (bool, error) {
	parts, sums, err := readHead(path, r, key, size)
	if err != nil || !into(parts) {
		return false, err
	}
	for i, p := range parts {
		sum := uint32(0)
		for _, piece := range p.Pieces {
			if _, err := io.ReadFull(r, piece); err != nil {
				return false, fmt.Errorf("kvstore: %s: %w", path, err)
			}
			sum = crc32.Update(sum, castagnoli, piece)
		}
		if sum != sums[i] {
			return false, &damagedError{path, fmt.Sprintf("the checksum of part %d differs", i)}
		}
	}
	return true, nil
}

// readHead reads what comes before the parts, and holds the file's length to it.
func readHead(path string, r io.Reader, key kv.Key, size int64) (parts []offload.Part, sums []uint32, err error) {
	var space [headBytes + kv.MaxGroups*partBytes + 4]byte
	head := space[:headBytes]
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, nil, &damagedError{path, "it ends within its head"}
	}
	n := binary.LittleEndian.Uint32(head[8+32:])
	if string(head[:8]) != magic || kv.Key(head[8:8+32]) != key || n < 1 || n > kv.MaxGroups {
		return nil, nil, &damagedError{path, "its head is not one of this key's"}
	}
	head = space[:headBytes+partBytes*int(n)+4]
	if _, err := io.ReadFull(r, head[headBytes:]); err != nil {
		return nil, nil, &damagedError{path, "it ends within its head"}
	}
	body := head[:len(head)-4]
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(head[len(body):]) {
		return nil, nil, &damagedError{path, "the checksum of its head differs"}
	}
	for at := headBytes; at < len(body); at += partBytes {
		bytes := binary.LittleEndian.Uint64(body[at+4:])
		if bytes > uint64(size) {
			return nil, nil, &damagedError{path, fmt.Sprintf("a part has %d bytes and the file %d", bytes, size)}
		}
		parts = append(parts, offload.Part{Group: int(binary.LittleEndian.Uint32(body[at:])), Bytes: int64(bytes)})
		sums = append(sums, binary.LittleEndian.Uint32(body[at+12:]))
	}
	if fileSize(parts) != size {
		return nil, nil, &damagedError{path, fmt.Sprintf("it has %d bytes and not %d", size, fileSize(parts))}
	}
	return parts, sums, nil
}
