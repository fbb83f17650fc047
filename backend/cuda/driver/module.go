package driver

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"unsafe"
)

// Module is machine code loaded into a context.
type Module struct {
	ctx    *Context
	handle uintptr
	name   string
}

// Options of CUjit_option.
const (
	jitErrorLog     = 5
	jitErrorLogSize = 6
)

// LoadPTX assembles PTX for this GPU and loads it; name is for messages. Its error carries the assembler's log. The driver
// keeps what it assembled on disk (~/.nv/ComputeCache, or CUDA_CACHE_PATH), by text, driver and GPU, so that only the
// first start on a machine waits for it.
//
// The text goes to the driver whole and not through its linker (cuLinkAddData), although that would hand out the machine code:
// the linker assembles for separate compilation, ignores setmaxnreg and puts a wait after every wgmma.
func (c *Context) LoadPTX(name string, ptx []byte) (*Module, error) {
	text := append(bytes.Clone(ptx), 0) // the driver reads a C string
	failure := make([]byte, 16<<10)
	options := []int32{jitErrorLog, jitErrorLogSize}
	values := []uintptr{uintptr(unsafe.Pointer(&failure[0])), uintptr(len(failure))}
	var pin runtime.Pinner // values holds the buffer's address as a plain word
	pin.Pin(&failure[0])
	defer pin.Unpin()
	m := &Module{ctx: c, name: name}
	err := c.driver.call("assembling "+name, cuModuleLoadDataEx, uintptr(unsafe.Pointer(&m.handle)), uintptr(unsafe.Pointer(&text[0])),
		uintptr(len(options)), uintptr(unsafe.Pointer(&options[0])), uintptr(unsafe.Pointer(&values[0])))
	if e, ok := err.(*Error); ok {
		e.Log = logText(failure)
		return nil, e
	}
	return m, nil
}

// Close unloads the module; its kernels must not be running.
func (m *Module) Close() error {
	return m.ctx.driver.call("unloading "+m.name, cuModuleUnload, m.handle)
}

func logText(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return strings.TrimSpace(string(b))
}

// Kernel is one function of a module, ready to launch.
type Kernel struct {
	Name   string
	ctx    *Context
	handle uintptr
}

// Attributes of CUfunction_attribute.
const (
	funcSharedStatic = 1
	funcLocalBytes   = 3
	funcRegisters    = 4
	funcMaxDynamic   = 8
	funcMaxThreads   = 0
	defaultShared    = 48 << 10 // more shared memory of a block than this must be asked for
)

// Kernel finds a function and raises its limit of dynamic shared memory to what its launches will need.
func (m *Module) Kernel(name string, sharedBytes int) (*Kernel, error) {
	k := &Kernel{Name: name, ctx: m.ctx}
	cname := append([]byte(name), 0)
	err := m.ctx.driver.call(fmt.Sprintf("finding the kernel %s in %s", name, m.name), cuModuleGetFunction,
		uintptr(unsafe.Pointer(&k.handle)), m.handle, uintptr(unsafe.Pointer(&cname[0])))
	if err != nil || sharedBytes == 0 {
		return k, err
	}
	if r, err := k.Resources(); err != nil || sharedBytes+r.StaticShared <= defaultShared {
		return k, err
	}
	return k, m.ctx.driver.call(fmt.Sprintf("giving the kernel %s %d bytes of shared memory", name, sharedBytes),
		cuFuncSetAttribute, k.handle, funcMaxDynamic, uintptr(sharedBytes))
}

// Resources is what the assembler gave a kernel, per thread or block.
type Resources struct{ Registers, LocalBytes, StaticShared, MaxThreads int }

// Resources reads the kernel's attributes. LocalBytes above 0 means registers spilled to memory.
func (k *Kernel) Resources() (Resources, error) {
	var r Resources
	for attr, to := range map[uintptr]*int{
		funcRegisters: &r.Registers, funcLocalBytes: &r.LocalBytes, funcSharedStatic: &r.StaticShared, funcMaxThreads: &r.MaxThreads,
	} {
		v := new(int32)
		if err := k.ctx.driver.call("reading the resources of the kernel "+k.Name, cuFuncGetAttribute, uintptr(unsafe.Pointer(v)), attr, k.handle); err != nil {
			return r, err
		}
		*to = int(*v)
	}
	return r, nil
}

// BlocksPerSM is how many blocks of so many threads and dynamic shared bytes one multiprocessor holds at once.
func (k *Kernel) BlocksPerSM(threads, sharedBytes int) (int, error) {
	n := new(int32)
	err := k.ctx.driver.call("asking for the occupancy of the kernel "+k.Name, cuOccupancyMaxActiveBlocks,
		uintptr(unsafe.Pointer(n)), k.handle, uintptr(threads), uintptr(sharedBytes))
	return int(*n), err
}
