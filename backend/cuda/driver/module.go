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

// LoadPTX compiles PTX for this GPU, or takes the compiled code from the cache, and loads it. name is for messages. A
// nil cache compiles every time.
func (c *Context) LoadPTX(name string, ptx []byte, cache *Cache) (*Module, error) {
	key := cache.key(c, ptx)
	if code, ok := cache.get(key); ok {
		if m, err := c.load(name, code); err == nil {
			return m, nil
		} // a damaged file of the cache is compiled anew and replaced
	}
	code, err := c.Compile(name, ptx)
	if err != nil {
		return nil, err
	}
	cache.put(key, code)
	return c.load(name, code)
}

func (c *Context) load(name string, code []byte) (*Module, error) {
	m := &Module{ctx: c, name: name}
	return m, c.driver.call("loading the kernels of "+name, cuModuleLoadData, uintptr(unsafe.Pointer(&m.handle)), uintptr(unsafe.Pointer(&code[0])))
}

// Close unloads the module; its kernels must not be running.
func (m *Module) Close() error {
	return m.ctx.driver.call("unloading the kernels of "+m.name, cuModuleUnload, m.handle)
}

// Options of CUjit_option and the input type of CUjitInputType.
const (
	jitInfoLog      = 3
	jitInfoLogSize  = 4
	jitErrorLog     = 5
	jitErrorLogSize = 6
	jitInputPTX     = 1
)

// Compile runs the driver's assembler over PTX and returns the cubin. Its error carries the assembler's log.
func (c *Context) Compile(name string, ptx []byte) ([]byte, error) {
	text := append(bytes.Clone(ptx), 0) // the driver reads a C string
	info, failure := make([]byte, 16<<10), make([]byte, 16<<10)
	options := []int32{jitInfoLog, jitInfoLogSize, jitErrorLog, jitErrorLogSize}
	values := []uintptr{
		uintptr(unsafe.Pointer(&info[0])), uintptr(len(info)),
		uintptr(unsafe.Pointer(&failure[0])), uintptr(len(failure)),
	}
	var pin runtime.Pinner // values holds the buffers' addresses as plain words
	pin.Pin(&info[0])
	pin.Pin(&failure[0])
	defer pin.Unpin()

	doing := "compiling the kernels of " + name
	state := new(uintptr)
	if err := c.driver.call(doing, cuLinkCreate, uintptr(len(options)), uintptr(unsafe.Pointer(&options[0])),
		uintptr(unsafe.Pointer(&values[0])), uintptr(unsafe.Pointer(state))); err != nil {
		return nil, err
	}
	defer c.driver.call(doing, cuLinkDestroy, *state)
	err := c.driver.call(doing, cuLinkAddData, *state, jitInputPTX, uintptr(unsafe.Pointer(&text[0])), uintptr(len(text)), 0, 0, 0, 0)
	code, size := new(unsafe.Pointer), new(uintptr)
	if err == nil {
		err = c.driver.call(doing, cuLinkComplete, *state, uintptr(unsafe.Pointer(code)), uintptr(unsafe.Pointer(size)))
	}
	if e, ok := err.(*Error); ok {
		e.Log = logText(failure)
		return nil, e
	}
	return bytes.Clone(unsafe.Slice((*byte)(*code), *size)), nil // the link state owns the original
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
	funcSharedStatic  = 1
	funcLocalBytes    = 3
	funcRegisters     = 4
	funcMaxDynamic    = 8
	funcMaxThreads    = 0
	defaultMaxDynamic = 48 << 10 // more dynamic shared memory than this must be asked for
)

// Kernel finds a function and raises its limit of dynamic shared memory to what its launches will need.
func (m *Module) Kernel(name string, sharedBytes int) (*Kernel, error) {
	k := &Kernel{Name: name, ctx: m.ctx}
	cname := append([]byte(name), 0)
	err := m.ctx.driver.call(fmt.Sprintf("finding the kernel %s in %s", name, m.name), cuModuleGetFunction,
		uintptr(unsafe.Pointer(&k.handle)), m.handle, uintptr(unsafe.Pointer(&cname[0])))
	if err != nil || sharedBytes <= defaultMaxDynamic {
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
