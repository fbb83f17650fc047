package cuda

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/weights/mmap"
)

// uploader copies host memory to the device through two pinned buffers (double buffering): while the GPU's DMA engine reads one, the host
// fills the other. It runs concurrently with its caller, which goes on binding kernels.
type uploader struct {
	ctx      *driver.Context
	stream   *driver.Stream
	last     chan struct{}  // closed when all that was queued so far has been read
	failed   error          // why nothing more is copied
	releases sync.WaitGroup // of sources that have been copied

	small      []piece // that are queued together
	smallBytes int

	buf  [2][]byte
	done [2]*driver.Event
	at   int // the buffer that is being filled
	used int // bytes of it
}

// piece is rows that are copied to one place.
type piece struct {
	to             driver.Ptr
	rows, rowBytes int
	fill           func(dst []byte, from, to int)
}

func newUploader(ctx *driver.Context) (*uploader, error) {
	u := &uploader{ctx: ctx, last: make(chan struct{})}
	close(u.last)
	var err error
	u.stream, err = ctx.NewStream()
	return u, err
}

// enqueue runs do after all that was queued before.
func (u *uploader) enqueue(do func() error) {
	u.flush()
	before, done := u.last, make(chan struct{})
	u.last = done
	go func() {
		defer close(done)
		if <-before; u.failed == nil {
			u.failed = u.ctx.Do(do)
		}
	}()
}

// release runs do once all that was queued before has been copied, concurrently with further copies: unmapping 16 GB takes 0.3 s.
func (u *uploader) release(do func()) {
	u.enqueue(func() error {
		u.releases.Go(do)
		return nil
	})
}

// after calls done, in another goroutine, when all that was queued before is on the device, or with why it is not.
func (u *uploader) after(done func(error)) {
	u.flush()
	before, last := u.last, make(chan struct{})
	u.last = last
	go func() {
		defer close(last)
		if <-before; u.failed == nil {
			u.failed = u.ctx.Do(u.stream.Synchronize)
		}
		done(u.failed)
	}()
}

// drain waits until the uploader reads no host memory any more.
func (u *uploader) drain() {
	u.flush()
	<-u.last
	u.releases.Wait()
}

// wait waits until all that was queued is on the device.
func (u *uploader) wait() error {
	u.flush()
	if <-u.last; u.failed != nil {
		return u.failed
	}
	return u.stream.Synchronize()
}

const (
	uploadChunk = 16 << 20 // bytes
	uploadSmall = 1 << 20  // up to so many bytes are queued with others like them: an adapter is many hundred pieces of 128 KiB
)

// buffer is room in a pinned buffer that the DMA engine has read. Small pieces follow one another in one buffer, so that none waits for the copy of those
// before it.
func (u *uploader) buffer(n int) (b []byte, done *driver.Event, err error) {
	i := u.at
	if from := int(aligned256(int64(u.used))); u.buf[i] != nil && from+n <= len(u.buf[i]) {
		u.used = from + n
		return u.buf[i][from:u.used], u.done[i], nil
	}
	i = 1 - i
	u.at, u.used = i, n
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

// rows copies rows of rowBytes; fill writes rows [from, to) to dst, in several goroutines.
func (u *uploader) rows(to driver.Ptr, rows, rowBytes int, fill func(dst []byte, from, to int)) {
	if n := rows * rowBytes; n <= uploadSmall {
		if n = int(aligned256(int64(n))); u.smallBytes+n > uploadChunk {
			u.flush()
		}
		u.small, u.smallBytes = append(u.small, piece{to, rows, rowBytes, fill}), u.smallBytes+n
		return
	}
	each := max(1, uploadChunk/rowBytes)
	u.enqueue(func() error {
		for r := 0; r < rows; r += each {
			n := min(each, rows-r)
			buf, done, err := u.buffer(n * rowBytes)
			if err != nil {
				return err
			}
			if err := readAll(n, 1+(1<<18)/rowBytes, func(from, to int) { fill(buf[from*rowBytes:to*rowBytes], r+from, r+to) }); err != nil {
				return err
			}
			if err := u.send(to+driver.Ptr(r*rowBytes), buf, done); err != nil {
				return err
			}
		}
		return nil
	})
}

// flush queues the small pieces so far: they are filled side by side and then sent.
func (u *uploader) flush() {
	pieces := u.small
	if u.small, u.smallBytes = nil, 0; len(pieces) == 0 {
		return
	}
	u.enqueue(func() error {
		bufs, dones := make([][]byte, len(pieces)), make([]*driver.Event, len(pieces))
		for i, p := range pieces {
			var err error
			if bufs[i], dones[i], err = u.buffer(p.rows * p.rowBytes); err != nil {
				return err
			}
		}
		err := readAll(len(pieces), 1+len(pieces)/(4*maxFillers), func(from, to int) {
			for i := from; i < to; i++ {
				pieces[i].fill(bufs[i], 0, pieces[i].rows)
			}
		})
		if err != nil {
			return err
		}
		for i, p := range pieces {
			if err := u.stream.Upload(p.to, bufs[i]); err != nil {
				return fmt.Errorf("cuda: sending weights: %w", err)
			}
			if i+1 == len(pieces) || dones[i+1] != dones[i] {
				if err := u.stream.Record(dones[i]); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// readAll is parallel for what reads mapped files. One that was cut meanwhile, or lies on a disk that fails, is an error and not the program's end.
func readAll(n, each int, do func(from, to int)) error {
	var first atomic.Pointer[error]
	parallel(n, each, func(from, to int) {
		if fault := mmap.Reading(func() { do(from, to) }); fault != nil {
			err := fmt.Errorf("cuda: a weight cannot be read from its file, which was cut or lies on a disk that fails: %w", fault)
			first.CompareAndSwap(nil, &err)
		}
	})
	if err := first.Load(); err != nil {
		return *err
	}
	return nil
}

// maxFillers is how many goroutines fill a chunk: with 16 on as many cores weights in Q4_0 take 0.8 s where 8 take 1.2.
const maxFillers = 16

// parallel gives n items to several goroutines, so many at a time: one cannot keep a PCIe 5 link busy, and pages of a mapped file fault
// in faster concurrently.
func parallel(n, each int, do func(from, to int)) {
	if n <= each {
		do(0, n)
		return
	}
	var wg sync.WaitGroup
	var taken atomic.Int64
	next := func() int { return int(taken.Add(int64(each))) - each }
	for range min(runtime.GOMAXPROCS(0), maxFillers, (n+each-1)/each) {
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
	u.drain()
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
