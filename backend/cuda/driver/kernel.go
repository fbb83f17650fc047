package driver

import "fmt"

// Kernel is one function of the GPU, assembled or being assembled; see Assembler. One goroutine at a time may use it.
type Kernel struct {
	Name  string
	ctx   *Context
	asked int // bytes of dynamic shared memory that launches are to have
	done  chan struct{}

	// What follows is there when done is closed.
	library, handle uintptr
	err             error
	given           int // bytes of dynamic shared memory that the driver lets launches have
}

// Attributes of CUfunction_attribute.
const (
	funcSharedStatic = 1
	funcMaxDynamic   = 8
	defaultShared    = 48 << 10 // more shared memory of a block than this must be asked for
)

// Room lets launches have so many bytes of dynamic shared memory; the most that was ever asked for counts.
func (k *Kernel) Room(bytes int) { k.asked = max(k.asked, bytes) }

// wait waits until the kernel can be launched.
func (k *Kernel) wait() error {
	<-k.done
	if k.err != nil || k.asked <= k.given {
		return k.err
	}
	k.err = k.ctx.driver.call(fmt.Sprintf("giving the kernel %s %d bytes of shared memory", k.Name, k.asked),
		cuFuncSetAttribute, k.handle, funcMaxDynamic, uintptr(k.asked))
	k.given = k.asked
	return k.err
}
