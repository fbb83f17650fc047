package driver

import (
	"bytes"
	"fmt"
	"unsafe"
)

// Device is one GPU and its properties.
type Device struct {
	Ordinal     int
	Name        string // "NVIDIA H200"
	Major       int    // compute capability, 9.0 on Hopper
	Minor       int
	SMs         int     // streaming multiprocessors
	L2          int     // bytes
	Memory      int64   // bytes on the board
	SharedBlock int     // bytes of shared memory a block may opt in to
	Clock       float64 // of the SMs at most, Hz
	ReadRate    float64 // of the board's memory at its highest clock, bytes/s
	MPS         bool    // kernels of other processes may run concurrently (NVIDIA Multi-Process Service)

	driver *Driver
	handle int32
}

// Attributes of CUdevice_attribute.
const (
	attrClock       = 13 // kHz
	attrSMs         = 16
	attrMemoryClock = 36 // kHz
	attrMemoryBus   = 37 // bits
	attrL2          = 38 // bytes
	attrMajor       = 75
	attrMinor       = 76
	attrSharedOptin = 97
	attrMPS         = 133
)

// Devices lists the GPUs. No GPU at all is an error, with the reason.
func (d *Driver) Devices() ([]Device, error) {
	count := new(int32)
	err := d.call("counting the GPUs", cuDeviceGetCount, uintptr(unsafe.Pointer(count)))
	if hasCode(err, codeNoDevice) || err == nil && *count == 0 {
		return nil, errNoGPU
	}
	if err != nil {
		return nil, err
	}
	devices := make([]Device, *count)
	for i := range devices {
		if devices[i], err = d.device(i); err != nil {
			return nil, err
		}
	}
	return devices, nil
}

func (d *Driver) device(ordinal int) (Device, error) {
	dev := Device{Ordinal: ordinal, driver: d}
	doing := fmt.Sprintf("reading the properties of GPU %d", ordinal)
	handle, total, name := new(int32), new(uint64), make([]byte, 256)
	if err := d.call(doing, cuDeviceGet, uintptr(unsafe.Pointer(handle)), uintptr(ordinal)); err != nil {
		return dev, err
	}
	dev.handle = *handle
	if err := d.call(doing, cuDeviceGetName, uintptr(unsafe.Pointer(&name[0])), uintptr(len(name)), uintptr(*handle)); err != nil {
		return dev, err
	}
	dev.Name = string(name[:bytes.IndexByte(name, 0)])
	if err := d.call(doing, cuDeviceTotalMem, uintptr(unsafe.Pointer(total)), uintptr(*handle)); err != nil {
		return dev, err
	}
	dev.Memory = int64(*total)
	var clock, memoryClock, bus int
	for attr, to := range map[uintptr]*int{
		attrClock: &clock, attrMemoryClock: &memoryClock, attrMemoryBus: &bus, attrSMs: &dev.SMs, attrL2: &dev.L2, attrMajor: &dev.Major, attrMinor: &dev.Minor, attrSharedOptin: &dev.SharedBlock,
	} {
		value := new(int32)
		if err := d.call(doing, cuDeviceGetAttribute, uintptr(unsafe.Pointer(value)), attr, uintptr(*handle)); err != nil {
			return dev, err
		}
		*to = int(*value)
	}
	dev.Clock = 1e3 * float64(clock)
	dev.ReadRate = 2 * 1e3 * float64(memoryClock) * float64(bus/8) // two transfers a clock
	shared := new(int32)
	err := d.call(doing, cuDeviceGetAttribute, uintptr(unsafe.Pointer(shared)), attrMPS, uintptr(*handle))
	dev.MPS = err == nil && *shared != 0 // drivers before CUDA 12.3 lack this attribute
	return dev, nil
}

// Arch is the compute capability as one number: 90 for 9.0.
func (dev Device) Arch() int { return dev.Major*10 + dev.Minor }

// String is one line for a list of devices.
func (dev Device) String() string {
	return fmt.Sprintf("GPU %d: %s, compute capability %d.%d, %d SMs, %.0f GiB, CUDA %s",
		dev.Ordinal, dev.Name, dev.Major, dev.Minor, dev.SMs, float64(dev.Memory)/(1<<30), dev.driver.Version())
}
