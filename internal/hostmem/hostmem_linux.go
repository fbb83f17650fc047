package hostmem

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// file is the one file of this process. It grows, and is never made smaller, by a seal that others check: so what they have mapped stays there.
var file struct {
	sync.Mutex
	*os.File
	size int64
}

const align = 2 << 20 // bytes: a large page

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// Alloc maps n bytes of zeroes, which take no memory until they are written. Free gives them back.
func Alloc(n int64) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	file.Lock()
	defer file.Unlock()
	if file.File == nil {
		fd, err := unix.MemfdCreate("ridge-pages", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		if err != nil {
			return nil, fmt.Errorf("hostmem: %w", err)
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK); err != nil {
			return nil, errors.Join(fmt.Errorf("hostmem: %w", err), unix.Close(fd))
		}
		file.File = os.NewFile(uintptr(fd), "ridge-pages")
	}
	at := file.size
	if err := file.Truncate(at + (n+align-1)/align*align); err != nil {
		return nil, fmt.Errorf("hostmem: %w", err)
	}
	file.size = at + (n+align-1)/align*align
	mem, err := unix.Mmap(int(file.Fd()), at, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("hostmem: %w", err)
	}
	_ = unix.Madvise(mem, unix.MADV_HUGEPAGE) // where the system grants them
	pieces.Lock()
	defer pieces.Unlock()
	i, _ := slices.BinarySearchFunc(pieces.list, address(mem), byStart)
	pieces.list = slices.Insert(pieces.list, i, piece{address(mem), n, at})
	return mem, nil
}

// Free gives back what Alloc gave. Others who have it mapped read zeroes from then on.
func Free(mem []byte) error {
	if mem == nil {
		return nil
	}
	pieces.Lock()
	i, found := slices.BinarySearchFunc(pieces.list, address(mem), byStart)
	if !found {
		pieces.Unlock()
		return errors.New("hostmem: memory that was not allocated, or freed before")
	}
	p := pieces.list[i]
	pieces.list = slices.Delete(pieces.list, i, i+1)
	pieces.Unlock()
	file.Lock()
	defer file.Unlock()
	return errors.Join(unix.Munmap(mem), unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, p.at, (p.n+align-1)/align*align))
}

// Open is the file for another process, which can read it and not write. The caller closes it.
func Open() (*os.File, error) {
	file.Lock()
	defer file.Unlock()
	if file.File == nil {
		return nil, errors.New("hostmem: no memory has been allocated that others could map")
	}
	return os.Open("/proc/self/fd/" + strconv.Itoa(int(file.Fd())))
}

// Map maps another process's file, as far as it goes now.
func Map(f *os.File) (*View, error) {
	seals, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0)
	if err != nil || seals&unix.F_SEAL_SHRINK == 0 {
		return nil, errors.Join(errors.New("hostmem: a file that could become smaller is not mapped"), err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("hostmem: %w", err)
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("hostmem: mapping %d bytes of another process: %w", info.Size(), err)
	}
	return &View{mem}, nil
}

// Close unmaps it; nothing may read it any more.
func (v *View) Close() error { return unix.Munmap(v.mem) }
