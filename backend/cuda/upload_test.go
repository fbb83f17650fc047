package cuda

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights/mmap"
)

// TestUpload copies more than a buffer holds, and rows of which three fill one, and does in between what was asked for in between. After an error
// nothing more is done, and whoever waits is told.
func TestUpload(t *testing.T) {
	const rowBytes = uploadChunk / 3
	d, rnd := gpu(t, 0), rand.NewChaCha8([32]byte{8})
	want := [][]byte{make([]byte, 2*uploadChunk+12345), make([]byte, 5*rowBytes)}
	got, broken := [][]byte{make([]byte, len(want[0])), make([]byte, len(want[1]))}, errors.New("broken")
	var done []int
	note := func(n int) { d.upload.enqueue(func() error { done = append(done, n); return nil }) }
	err := d.do(func() error {
		var at [2]driver.Ptr
		for i, b := range want {
			rnd.Read(b)
			var err error
			if at[i], err = d.alloc(int64(len(b)), "a test"); err != nil {
				return err
			}
		}
		note(1)
		d.upload.bytes(at[0], want[0])
		note(2)
		d.upload.rows(at[1], 5, rowBytes, func(dst []byte, from, to int) { copy(dst, want[1][from*rowBytes:to*rowBytes]) })
		note(3)
		if err := d.upload.wait(); err != nil {
			return err
		}
		for i := range got {
			if err := d.stream.Download(got[i], at[i]); err != nil {
				return err
			}
		}
		if err := d.stream.Synchronize(); err != nil {
			return err
		}
		d.upload.enqueue(func() error { return broken })
		note(4)
		return d.upload.wait()
	})
	if !errors.Is(err, broken) || !slices.Equal(done, []int{1, 2, 3}) {
		t.Errorf("%v after doing %v; want %v after 1, 2 and 3", err, done, broken)
	}
	for i := range got {
		if !bytes.Equal(got[i], want[i]) {
			t.Errorf("upload %d differs on the device", i)
		}
	}
}

// TestUploadOfCutFile: a file of weights that is cut while they are copied to the GPU, as they are or dequantised, is an error that says so; the process lives.
func TestUploadOfCutFile(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere a file that is mapped cannot be cut, or faults in another way")
	}
	const rows, cols = 512, 4096
	for _, as := range []graph.Type{graph.F32, graph.BF16} {
		d := gpu(t, 0)
		path := filepath.Join(t.TempDir(), "weights")
		if err := os.WriteFile(path, make([]byte, 4*rows*cols), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := mmap.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		w := &weight{name: "w", tensor: quant.Tensor{Format: quant.F32, Rows: rows, Cols: cols, Data: file.Bytes()}, format: quant.F32, on: map[graph.Type]driver.Ptr{}, upload: d.upload}
		err = d.do(func() error {
			d.upload.enqueue(func() error { return os.Truncate(path, 4096) })
			if _, err := d.resident(w, as); err != nil {
				return err
			}
			return d.upload.wait()
		})
		if err == nil || !strings.Contains(err.Error(), "was cut") {
			t.Errorf("as %v: %v", as, err)
		}
	}
}
