package shm

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The memory: a head, counters of ranks and of pairs of ranks, then blocks. Counters wrap around; each has cache lines of its own, since another
// processor waits for it.
const (
	folder    = "/dev/shm"
	prefix    = "ridge-"
	maxRanks  = 64
	lines     = 128       // bytes of a counter: a processor fetches lines by two
	block     = 128 << 10 // bytes
	blocks    = 4         // of a rank; a power of two
	sent      = 2         // blocks from a rank to another; a power of two
	blockHead = 64        // bytes before the numbers of a block
	headBytes = 4096
	nonceLen  = 16
	nonceAt   = 0
	textAt    = 256 // why a rank has aborted
	textMost  = 1024
	abortedAt = 128 // 0: no rank has; 1: one is writing why; 2: one has
)

// layout is where things lie for so many ranks.
type layout struct{ ranks int }

func (l layout) counter(rank, which int) int { return headBytes + (rank*3+which)*lines }
func (l layout) pair(from, to, which int) int {
	return l.counter(l.ranks, 0) + ((from*l.ranks+to)*2+which)*lines
}
func (l layout) block(rank, i int) int {
	return l.pair(l.ranks, 0, 0) + (rank*blocks+i)*(blockHead+block)
}
func (l layout) sent(from, to, i int) int {
	return l.block(l.ranks, 0) + ((from*l.ranks+to)*sent+i)*(blockHead+block)
}
func (l layout) bytes() int { return l.sent(l.ranks, 0, 0) }

// Create makes memory for so many ranks, which Open it. Remove its name once all have: it is gone with the last process then.
func Create(ranks int) (Memory, error) {
	if ranks < 1 || ranks > maxRanks {
		return Memory{}, fmt.Errorf("comm: shared memory for %d ranks; 1 to %d are possible", ranks, maxRanks)
	}
	return reserve(int64(layout{ranks}.bytes()), fmt.Sprintf("%d ranks exchange numbers", ranks))
}

// Reserve makes memory of n bytes for two processes, which Map it; else it is as Create.
func Reserve(n int64) (Memory, error) { return reserve(headBytes+n, "two processes exchange pages") }

// reserve makes memory of n bytes, through which somebody does something.
func reserve(n int64, what string) (Memory, error) {
	nonce := make([]byte, nonceLen)
	_, _ = rand.Read(nonce) // never fails (crypto/rand)
	file, err := os.CreateTemp(folder, prefix)
	if err != nil {
		return Memory{}, fmt.Errorf("comm: shared memory: %w", err)
	}
	m := Memory{Path: file.Name(), Nonce: hex.EncodeToString(nonce)}
	// Memory that is promised and not there would end the process when it is touched.
	if err = unix.Fallocate(int(file.Fd()), 0, 0, n); err != nil {
		err = fmt.Errorf("comm: %s has no room for the %d bytes that %s through: %w", folder, n, what, err)
	} else {
		_, err = file.WriteAt(nonce, nonceAt)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return Memory{}, errors.Join(err, os.Remove(m.Path))
	}
	return m, nil
}

// Remove takes the memory's name away.
func Remove(m Memory) error { return os.Remove(m.Path) }

// mapped is the memory of a name, checked to be of so many ranks.
func mapped(m Memory, ranks int) ([]byte, error) {
	return mapBytes(m, int64(layout{ranks}.bytes()), fmt.Sprintf("%d ranks need", ranks))
}

// mapBytes is the memory of a name, checked to have as many bytes as somebody needs.
func mapBytes(m Memory, want int64, needs string) ([]byte, error) {
	file, err := os.OpenFile(m.Path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("comm: shared memory: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("comm: shared memory: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() != want {
		return nil, fmt.Errorf("comm: shared memory %s has %d bytes; %s %d", m.Path, info.Size(), needs, want)
	}
	mem, err := unix.Mmap(int(file.Fd()), 0, int(info.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("comm: mapping shared memory: %w", err)
	}
	if hex.EncodeToString(mem[nonceAt:nonceAt+nonceLen]) != m.Nonce {
		return nil, errors.Join(fmt.Errorf("comm: shared memory %s is another rank's: its nonce differs", m.Path), unix.Munmap(mem))
	}
	return mem, nil
}

// numbers is n numbers at a place of the memory.
func numbers(mem []byte, at, n int) []float32 {
	if n == 0 {
		return nil
	}
	_ = mem[at+4*n-1]
	return unsafe.Slice((*float32)(unsafe.Pointer(&mem[at])), n)
}

// Named is memory by the last part of its Path, which Memory.Name gives.
func Named(name, nonce string) (Memory, error) {
	if !strings.HasPrefix(name, prefix) || strings.ContainsAny(name, "/\x00") {
		return Memory{}, fmt.Errorf("comm: %q is no name of shared memory", name)
	}
	return Memory{Path: folder + "/" + name, Nonce: nonce}, nil
}

// Mapped is memory that Reserve made, of the bytes that it was asked for.
type Mapped struct {
	Bytes []byte
	all   []byte
}

// Map maps memory of n bytes.
func Map(m Memory, n int64) (*Mapped, error) {
	all, err := mapBytes(m, headBytes+n, "two processes that exchange pages need")
	if err != nil {
		return nil, err
	}
	return &Mapped{Bytes: all[headBytes:], all: all}, nil
}

// Close unmaps it.
func (m *Mapped) Close() error { return unix.Munmap(m.all) }
