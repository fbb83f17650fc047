package cuda

import (
	"fmt"
	"runtime"
	"sync"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
)

// uploader copies host memory to the device through two pinned buffers: while the copy engine reads one, the host fills
// the other.
type uploader struct {
	ctx    *driver.Context
	stream *driver.Stream
	buf    [2][]byte
	done   [2]*driver.Event
	next   int
}

const uploadChunk = 16 << 20 // bytes

// buffer is a pinned buffer that the copy engine is done with.
func (u *uploader) buffer(n int) (b []byte, done *driver.Event, err error) {
	i := u.next
	u.next = 1 - i
	if u.done[i] == nil {
		if u.done[i], err = u.ctx.NewEvent(); err != nil {
			return nil, nil, err
		}
	} else if err := u.done[i].Synchronize(); err != nil {
		return nil, nil, err
	}
	if len(u.buf[i]) < n {
		if u.buf[i] != nil {
			if err := u.ctx.FreeHost(u.buf[i]); err != nil {
				return nil, nil, err
			}
		}
		if u.buf[i], err = u.ctx.AllocHost(max(n, uploadChunk)); err != nil {
			return nil, nil, err
		}
	}
	return u.buf[i][:n], u.done[i], nil
}

// bytes copies b.
func (u *uploader) bytes(to driver.Ptr, b []byte) error {
	for len(b) > 0 {
		n := min(len(b), uploadChunk)
		buf, done, err := u.buffer(n)
		if err != nil {
			return err
		}
		parallel(n, 1<<20, func(from, to int) { copy(buf[from:to], b[from:to]) })
		if err := u.send(to, buf, done); err != nil {
			return err
		}
		to, b = to+driver.Ptr(n), b[n:]
	}
	return nil
}

// rows copies rows of rowBytes that fill makes, several side by side.
func (u *uploader) rows(to driver.Ptr, rows, rowBytes int, fill func(dst []byte, from, to int)) error {
	each := max(1, uploadChunk/rowBytes)
	for r := 0; r < rows; r += each {
		n := min(each, rows-r)
		buf, done, err := u.buffer(n * rowBytes)
		if err != nil {
			return err
		}
		parallel(n, 1+(1<<18)/rowBytes, func(from, to int) { fill(buf[from*rowBytes:to*rowBytes], r+from, r+to) })
		if err := u.send(to+driver.Ptr(r*rowBytes), buf, done); err != nil {
			return err
		}
	}
	return nil
}

// parallel cuts n things into parts of at least so many and does them with several goroutines: one cannot keep a PCIe 5 link
// busy, and pages of a mapped file fault in faster side by side.
func parallel(n, least int, do func(from, to int)) {
	parts := min(runtime.GOMAXPROCS(0), 8, n/least)
	if parts <= 1 {
		do(0, n)
		return
	}
	var wg sync.WaitGroup
	for i := range parts {
		wg.Go(func() { do(n*i/parts, n*(i+1)/parts) })
	}
	wg.Wait()
}

func (u *uploader) send(to driver.Ptr, buf []byte, done *driver.Event) error {
	if err := u.stream.Upload(to, buf); err != nil {
		return fmt.Errorf("sending a weight: %w", err)
	}
	return u.stream.Record(done)
}

func (u *uploader) close() {
	for i := range u.buf {
		if u.done[i] != nil {
			u.done[i].Close()
		}
		if u.buf[i] != nil {
			u.ctx.FreeHost(u.buf[i])
		}
	}
}
