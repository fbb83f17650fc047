package hostmem

import (
	"bytes"
	"errors"
	"runtime"
	"testing"
)

// TestHostMem: what is written to allocated memory is read in another mapping of the file, at the place that At gives, also of later pieces; freed memory has no place and reads as zeroes.
func TestHostMem(t *testing.T) {
	a, err := Alloc(3 << 20)
	if runtime.GOOS != "linux" {
		if !errors.Is(err, ErrUnsupported) {
			t.Error(err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	b, err := Alloc(5000)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	v, err := Map(f)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	for _, piece := range [][]byte{a, a[1<<20 : 1<<20+77], a[len(a)-1:], b, b[4999:]} {
		at, ok := At(piece)
		if !ok {
			t.Fatalf("%d bytes have no place", len(piece))
		}
		for i := range piece {
			piece[i] = byte(i + len(piece))
		}
		if !bytes.Equal(v.Bytes(at, len(piece)), piece) {
			t.Errorf("%d bytes are not at %d", len(piece), at)
		}
	}
	for _, other := range [][]byte{nil, make([]byte, 10), b[:0]} {
		if at, ok := At(other); ok {
			t.Errorf("%d bytes of other memory are at %d", len(other), at)
		}
	}
	at, _ := At(a)
	if err := Free(a); err != nil {
		t.Error(err)
	}
	if got := v.Bytes(at, 100); !bytes.Equal(got, make([]byte, 100)) {
		t.Error("memory that was freed reads as what it had")
	}
	if err := Free(b); err != nil {
		t.Error(err)
	}
	if err := Free(b[:10:10]); err == nil {
		t.Error("memory is freed twice")
	}
}
