package driver

import (
	"runtime"
	"unsafe"
)

// codeAlreadyPeers is CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED.
const codeAlreadyPeers = 704

// UUID tells a GPU from all others.
func (dev Device) UUID() (id [16]byte, err error) {
	to := new([16]byte)
	err = dev.driver.call("reading the number of the GPU "+dev.Name, cuDeviceGetUuid, uintptr(unsafe.Pointer(to)), uintptr(dev.handle))
	return *to, err
}

// Reaches reports whether kernels on this GPU can address the memory of another that this process sees, by NVLink or PCIe.
func (dev Device) Reaches(ordinal int) (bool, error) {
	const doing = "asking whether GPUs reach each other"
	other, can := new(int32), new(int32)
	if err := dev.driver.call(doing, cuDeviceGet, uintptr(unsafe.Pointer(other)), uintptr(ordinal)); err != nil {
		return false, err
	}
	err := dev.driver.call(doing, cuDeviceCanAccessPeer, uintptr(unsafe.Pointer(can)), uintptr(dev.handle), uintptr(*other))
	return *can != 0, err
}

// Handle is the context as other contexts of the process name it.
func (c *Context) Handle() uintptr { return c.handle }

// Reach has kernels of this context, which is current, address all memory of another GPU's context of the process.
func (c *Context) Reach(peer uintptr) error {
	err := c.driver.call("letting a GPU reach another", cuCtxEnablePeerAccess, peer, 0)
	if hasCode(err, codeAlreadyPeers) {
		return nil
	}
	return err
}

// Shareable is how other processes name memory of Alloc (CUDA IPC).
type Shareable [64]byte

// Share names memory for other processes of this host.
func (c *Context) Share(p Ptr) (s Shareable, err error) {
	to := new(Shareable)
	err = c.driver.call("sharing device memory with other processes", cuIpcGetMemHandle, uintptr(unsafe.Pointer(to)), uintptr(p))
	return *to, err
}

const ipcLazyPeers = 1 // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS

// OpenShared is memory of another process, on this GPU or one that it reaches. CloseShared gives it back.
func (c *Context) OpenShared(s Shareable) (Ptr, error) {
	p, handle := new(Ptr), new([8]uintptr)
	*handle = *(*[8]uintptr)(unsafe.Pointer(&s))
	const doing = "opening device memory of another process"
	// The handle is passed by value: on amd64 on the stack, behind the six words that go in registers; on arm64 by the address of a copy.
	if runtime.GOARCH == "amd64" {
		h := handle
		err := c.driver.call(doing, cuIpcOpenMemHandle, uintptr(unsafe.Pointer(p)), ipcLazyPeers, 0, 0, 0, 0, h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7])
		return *p, err
	}
	err := c.driver.call(doing, cuIpcOpenMemHandle, uintptr(unsafe.Pointer(p)), uintptr(unsafe.Pointer(handle)), ipcLazyPeers)
	return *p, err
}

// CloseShared gives back memory of OpenShared.
func (c *Context) CloseShared(p Ptr) error {
	return c.driver.call("closing device memory of another process", cuIpcCloseMemHandle, uintptr(p))
}
