package driver

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"sync"
	"time"
	"unsafe"
)

// Assembler compiles PTX to machine code for a GPU, several kernels in parallel and in the background: the driver needs 20 to 1,500 ms of a
// core for one, and a model has about thirty. The driver caches machine code on disk (~/.nv/ComputeCache, or CUDA_CACHE_PATH) by text, driver
// and GPU, so that only the first start on a machine takes long.
type Assembler struct {
	ctx     *Context
	sem     chan struct{} // one place for each kernel that may be assembled at a time
	kernels []*Kernel

	mu      sync.Mutex
	pending int         // kernels being assembled or waiting for the semaphore
	alarm   *time.Timer // runs while any are pending
	slow    func()      // called by alarm, once; or nil
	failed  error       // why no more kernels are started
}

var errClosed = errors.New("cuda: the GPU has been closed")

const (
	maxParallel = 16 // with 8 on 16 cores, the first start of an 8B model in Q4_0 takes 2.4 to 2.9 s in place of 2.0
	slowAfter   = time.Second
)

// NewAssembler is an Assembler for a GPU.
func NewAssembler(ctx *Context) *Assembler {
	return &Assembler{ctx: ctx, sem: make(chan struct{}, min(runtime.GOMAXPROCS(0), maxParallel))}
}

// WhenSlow has slow called once, in another goroutine, when assembling has taken a second.
func (a *Assembler) WhenSlow(slow func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.slow = slow
}

// reportSlow calls slow unless it has been called.
func (a *Assembler) reportSlow() {
	a.mu.Lock()
	slow := a.slow
	a.slow = nil
	a.mu.Unlock()
	if slow != nil {
		slow()
	}
}

// Kernel returns a kernel at once and assembles it in the background, from a text that holds it alone. Uses of the kernel wait for that and get its
// error. in names the kernel's module, for messages. The error is that of an earlier kernel, so that a start that cannot succeed ends early.
func (a *Assembler) Kernel(in, name string, text func() ([]byte, error)) (*Kernel, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failed != nil {
		return nil, a.failed
	}
	k := &Kernel{Name: name, ctx: a.ctx, done: make(chan struct{})}
	a.kernels = append(a.kernels, k)
	if a.pending++; a.pending == 1 && a.slow != nil {
		a.alarm = time.AfterFunc(slowAfter, a.reportSlow)
	}
	go func() {
		a.sem <- struct{}{}
		if k.err = a.stopped(); k.err == nil {
			k.err = a.load(k, in, text)
		}
		a.stop(k.err)
		<-a.sem
		a.finished()
		close(k.done)
	}()
	return k, nil
}

func (a *Assembler) load(k *Kernel, in string, text func() ([]byte, error)) error {
	ptx, err := text()
	if err != nil {
		return err
	}
	return a.ctx.Do(func() error { return k.assemble(in+"/"+k.Name, ptx) })
}

// stop starts no more kernels if why is not nil.
func (a *Assembler) stop(why error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failed == nil {
		a.failed = why
	}
}

func (a *Assembler) stopped() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failed
}

// finished counts a kernel as assembled.
func (a *Assembler) finished() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pending--; a.pending == 0 && a.alarm != nil {
		a.alarm.Stop()
	}
}

// Wait waits until all kernels can be launched. Its error is that of the first kernel that failed.
func (a *Assembler) Wait() error {
	for _, k := range a.kernels {
		if err := k.wait(); err != nil {
			return err
		}
	}
	return nil
}

// Close unloads all kernels; none may be running. Kernels not yet started are not assembled.
func (a *Assembler) Close() error {
	a.stop(errClosed)
	var failed []error
	for _, k := range a.kernels {
		<-k.done
		if k.library != 0 {
			failed = append(failed, a.ctx.driver.call("unloading "+k.Name, cuLibraryUnload, k.library))
		}
	}
	a.kernels = nil
	return errors.Join(failed...)
}

// Options of CUjit_option.
const (
	jitErrorLog     = 5
	jitErrorLogSize = 6
)

// assemble assembles the kernel from its text; full is its name for messages. The error contains the assembler's log.
//
// The text goes to the driver as a library. Modules (cuModuleLoadData) belong to a context, which is locked while one of them is assembled:
// 16 threads took longer for 32 kernels than one. It does not go through the driver's linker (cuLinkAddData), although that
// would return the machine code: the linker assembles for separate compilation, ignores setmaxnreg and puts a wait after every wgmma.
func (k *Kernel) assemble(full string, ptx []byte) error {
	text := append(bytes.Clone(ptx), 0) // the driver reads a C string
	failure := make([]byte, 16<<10)
	options := []int32{jitErrorLog, jitErrorLogSize}
	values := []uintptr{uintptr(unsafe.Pointer(&failure[0])), uintptr(len(failure))}
	var pin runtime.Pinner // the driver assembles, and writes its log, at the first call that needs it to
	defer pin.Unpin()
	pin.Pin(&text[0])
	pin.Pin(&failure[0])
	pin.Pin(&options[0])
	pin.Pin(&values[0])
	d, doing, name, kernel := k.ctx.driver, "assembling "+full, append([]byte(k.Name), 0), new(uintptr)
	err := d.call(doing, cuLibraryLoadData, uintptr(unsafe.Pointer(&k.library)), uintptr(unsafe.Pointer(&text[0])),
		uintptr(unsafe.Pointer(&options[0])), uintptr(unsafe.Pointer(&values[0])), uintptr(len(options)), 0, 0, 0)
	if err == nil {
		err = d.call(doing, cuLibraryGetKernel, uintptr(unsafe.Pointer(kernel)), k.library, uintptr(unsafe.Pointer(&name[0])))
	}
	if err == nil {
		err = d.call(doing, cuKernelGetFunction, uintptr(unsafe.Pointer(&k.handle)), *kernel)
	}
	if e, ok := err.(*Error); ok {
		e.Log = logText(failure)
		return e
	}
	static := new(int32)
	err = d.call("reading the shared memory of "+full, cuFuncGetAttribute, uintptr(unsafe.Pointer(static)), funcSharedStatic, k.handle)
	k.granted = defaultShared - int(*static)
	return err
}

func logText(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return strings.TrimSpace(string(b))
}
