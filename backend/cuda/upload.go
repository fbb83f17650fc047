package cuda

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
)

// uploader copies host memory to the device through two pinned buffers: while the copy engine reads one, the host fills
// the other. It does so beside its caller, who goes on binding kernels, which are then assembled meanwhile.
type uploader struct {
	ctx    *driver.Context
	stream *driver.Stream
	last   chan struct{}  // closed when all that was asked for so far has been copied from where it lay
	failed error          // why nothing more is copied
	beside sync.WaitGroup // what is done to sources that have been copied

	buf  [2][]byte
	done [2]*driver.Event
	next int
}

func newUploader(ctx *driver.Context) (*uploader, error) {
	u := &uploader{ctx: ctx, last: make(chan struct{})}
	close(u.last)
	var err error
	u.stream, err = ctx.NewStream()
	return u, err
}

// later has do done when all that was asked for before has been.
func (u *uploader) later(do func() error) {
	before, done := u.last, make(chan struct{})
	u.last = done
	go func() {
		defer close(done)
		if <-before; u.failed == nil {
			u.failed = u.ctx.Do(do)
		}
	}()
}

// release has do done once all that was asked for before has been copied, beside the copying: unmapping 16 GB takes 0.3 s.
func (u *uploader) release(do func()) {
	u.later(func() error {
		u.beside.Go(do)
		return nil
	})
}

// settle waits until nothing that was to be copied is looked at any more.
func (u *uploader) settle() {
	<-u.last
	u.beside.Wait()
}

// wait waits until all is on the device. What reads it there comes after.
func (u *uploader) wait() error {
	if <-u.last; u.failed != nil {
		return u.failed
	}
	return u.stream.Synchronize()
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

// bytes copies b, which stays as it is.
func (u *uploader) bytes(to driver.Ptr, b []byte) {
	u.rows(to, len(b), 1, func(dst []byte, from, to int) { copy(dst, b[from:to]) })
}

// rows copies rows of rowBytes that fill makes, several side by side.
func (u *uploader) rows(to driver.Ptr, rows, rowBytes int, fill func(dst []byte, from, to int)) {
	each := max(1, uploadChunk/rowBytes)
	u.later(func() error {
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
	})
}

// mostParts is how many goroutines make a chunk: with 16 on as many cores weights in Q4_0 take 0.8 s where 8 take 1.2.
const mostParts = 16

// parallel deals n things out, so many at a time, to several goroutines: one cannot keep a PCIe 5 link busy, and pages of a mapped file fault
// in faster side by side.
func parallel(n, each int, do func(from, to int)) {
	if n <= each {
		do(0, n)
		return
	}
	var wg sync.WaitGroup
	var dealt atomic.Int64
	next := func() int { return int(dealt.Add(int64(each))) - each }
	for range min(runtime.GOMAXPROCS(0), mostParts, (n+each-1)/each) {
		wg.Go(func() {
			for from := next(); from < n; from = next() {
				do(from, min(from+each, n))
			}
		})
	}
	wg.Wait()
}

func (u *uploader) send(to driver.Ptr, buf []byte, done *driver.Event) error {
	if err := u.stream.Upload(to, buf); err != nil {
		return fmt.Errorf("cuda: sending weights: %w", err)
	}
	return u.stream.Record(done)
}

func (u *uploader) close() {
	u.settle()
	for i := range u.buf {
		if u.done[i] != nil {
			u.done[i].Close()
		}
		if u.buf[i] != nil {
			u.ctx.FreeHost(u.buf[i])
		}
	}
	u.stream.Close()
}
