package cpu

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestPrefault: prefaulted memory is resident and keeps its contents; what lies beside it is not resident.
func TestPrefault(t *testing.T) {
	dev, err := New(Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	const page, pages = 4096, 64
	b, err := dev.Alloc(pages*page, "a test")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Free(b)
	data := raw(b)
	data[5*page+7] = 42
	dev.Prefault(b.Slice(4*page-1, 8*page)) // whole pages of it: 4 to 10
	if err := unix.Madvise(data[:page], unix.MADV_POPULATE_WRITE); err != nil {
		t.Skipf("the system does not know MADV_POPULATE_WRITE: %v", err)
	}
	if data[5*page+7] != 42 {
		t.Error("what was in the memory is gone")
	}
	there := make([]byte, pages)
	if err := mincore(data, there); err != nil {
		t.Fatal(err)
	}
	if there[0]&1 == 0 {
		t.Skip("the system takes MADV_POPULATE_WRITE for nothing, as an emulator does")
	}
	for i := 4; i < 11; i++ {
		if there[i]&1 == 0 {
			t.Errorf("page %d was prefaulted and is not there", i)
		}
	}
	if there[pages-1]&1 != 0 {
		t.Errorf("page %d is there and was not prefaulted", pages-1)
	}
}

// mincore says of each page whether it is resident, in bit 0.
func mincore(data, there []byte) error {
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&data[0])), uintptr(len(data)), uintptr(unsafe.Pointer(&there[0])))
	if errno != 0 {
		return errno
	}
	return nil
}
