// Package driver is the CUDA driver API, reached by dlopen: no cgo, no toolkit, nothing linked.
//
// A program opens the Driver, picks a Device, opens its Context and works through Streams and Kernels. The driver keeps
// "the current context" per operating-system thread, so everything that takes a Context or Stream must run inside
// Context.Do, which locks the goroutine to its thread and makes the context current.
//
// Source: CUDA Driver API reference, https://docs.nvidia.com/cuda/cuda-driver-api/.
package driver

import (
	"errors"
	"fmt"
	"unsafe"
)

// minVersion is the oldest CUDA version whose driver reads our PTX (ISA 8.3, CUDA 12.3, driver 545).
const minVersion = 12030

var errNoGPU = errors.New("cuda: the NVIDIA driver is here but it finds no GPU (see nvidia-smi and CUDA_VISIBLE_DEVICES)")

// Driver is the opened library.
type Driver struct {
	fn      [numCalls]uintptr
	version int
}

// Open loads libcuda.so.1 and initialises it. The error says in a sentence why a GPU cannot be used.
func Open() (*Driver, error) {
	d := &Driver{}
	if err := loadLibrary(&d.fn); err != nil {
		return nil, err
	}
	version := new(int32)
	if d.fn[cuDriverGetVersion] == 0 || syscall(d.fn[cuDriverGetVersion], uintptr(unsafe.Pointer(version))) != 0 {
		return nil, fmt.Errorf("cuda: libcuda.so.1 does not report its version; reinstall the NVIDIA driver")
	}
	d.version = int(*version)
	if d.version < minVersion {
		return nil, fmt.Errorf("cuda: the NVIDIA driver is too old: it speaks CUDA %s and CUDA %s is needed; install driver 545 or newer, or take --backend cpu",
			versionString(d.version), versionString(minVersion))
	}
	for c, fn := range d.fn {
		if fn == 0 && !optional[call(c)] {
			return nil, fmt.Errorf("cuda: libcuda.so.1 (CUDA %s) has no %s; reinstall the NVIDIA driver", d.Version(), call(c))
		}
	}
	err := d.call("starting the driver", cuInit, 0)
	if hasCode(err, codeNoDevice) {
		return nil, errNoGPU
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Version is the newest CUDA version the driver speaks, such as "13.0".
func (d *Driver) Version() string { return versionString(d.version) }

func versionString(v int) string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }

// call runs one driver function and turns its code into an Error that says what was being done. Pointers converted to
// uintptr in the argument list stay alive and in place until it returns; the compiler arranges that.
//
//go:uintptrescapes
func (d *Driver) call(doing string, c call, args ...uintptr) error {
	if code := syscall(d.fn[c], args...); code != 0 {
		return d.newError(doing, c, code)
	}
	return nil
}
