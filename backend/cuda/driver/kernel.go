package driver

import (
	"fmt"
	"unsafe"
)

// Kernel is one function of the GPU, assembled or being assembled; see Assembler. One goroutine at a time may use it.
type Kernel struct {
	Name   string
	ctx    *Context
	wanted int // bytes of dynamic shared memory that launches need
	done   chan struct{}

	// The fields below are set when done is closed.
	library, handle uintptr
	err             error
	granted         int // bytes of dynamic shared memory that launches may use
}

// Attributes of CUfunction_attribute.
const (
	funcSharedStatic = 1
	funcLocal        = 3
	funcRegisters    = 4
	funcMaxDynamic   = 8
	defaultShared    = 48 << 10 // more shared memory of a block than this needs funcMaxDynamic
)

// Room lets launches use so many bytes of dynamic shared memory; the largest request counts.
func (k *Kernel) Room(bytes int) { k.wanted = max(k.wanted, bytes) }

// wait waits until the kernel can be launched.
func (k *Kernel) wait() error {
	<-k.done
	if k.err != nil || k.wanted <= k.granted {
		return k.err
	}
	k.err = k.ctx.driver.call(fmt.Sprintf("reserving %[2]d bytes of shared memory for the kernel %[1]s", k.Name, k.wanted),
		cuFuncSetAttribute, k.handle, funcMaxDynamic, uintptr(k.wanted))
	k.granted = k.wanted
	return k.err
}

// Registers is how many registers a thread of the kernel has, and its bytes of local memory: what did not fit into them.
func (k *Kernel) Registers() (registers, local int, err error) {
	if err := k.wait(); err != nil {
		return 0, 0, err
	}
	value := new([2]int32)
	for i, attribute := range []uintptr{funcRegisters, funcLocal} {
		if err := k.ctx.driver.call("reading the registers of the kernel "+k.Name, cuFuncGetAttribute, uintptr(unsafe.Pointer(&value[i])), attribute, k.handle); err != nil {
			return 0, 0, err
		}
	}
	return int(value[0]), int(value[1]), nil
}
