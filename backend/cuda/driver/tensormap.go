package driver

import (
	"fmt"
	"unsafe"
)

// TensorMap describes a matrix to Hopper's copy engine; kernels take it by value as a 64-byte aligned parameter.
type TensorMap [128]byte

// Values of CUtensorMapDataType, CUtensorMapSwizzle and CUtensorMapL2promotion.
const (
	tensorUint8      = 0
	tensorBFloat16   = 9
	tensorSwizzle128 = 3
	tensorPromote256 = 3
)

// MatrixMap describes a row-major matrix of bf16 (elemSize 2) or bytes (elemSize 1) in device memory: rows × cols, rows
// stride bytes apart (a multiple of 16), fetched in boxes of boxRows × boxCols. A box's row must be 128 bytes long: that
// is the swizzle the kernels' shared memory uses. Elements outside the matrix arrive as zeros.
func (c *Context) MatrixMap(base Ptr, elemSize, rows, cols, stride, boxRows, boxCols int) (TensorMap, error) {
	m := new(struct {
		_   [64]byte // the driver wants 64-byte alignment, which Go gives no type
		buf [192]byte
	})
	at := unsafe.Pointer(&m.buf)
	at = unsafe.Add(at, (64-uintptr(at)%64)%64)
	size := &[2]uint64{uint64(cols), uint64(rows)}
	strides := &[1]uint64{uint64(stride)}
	box := &[2]uint32{uint32(boxCols), uint32(boxRows)}
	steps := &[2]uint32{1, 1}
	kind := uintptr(tensorBFloat16)
	if elemSize == 1 {
		kind = tensorUint8
	}
	err := c.driver.call(fmt.Sprintf("describing a matrix of %d×%d in boxes of %d×%d to the copy engine", rows, cols, boxRows, boxCols),
		cuTensorMapEncodeTiled, uintptr(at), kind, 2, uintptr(base), uintptr(unsafe.Pointer(size)), uintptr(unsafe.Pointer(strides)),
		uintptr(unsafe.Pointer(box)), uintptr(unsafe.Pointer(steps)), 0, tensorSwizzle128, tensorPromote256, 0)
	return *(*TensorMap)(at), err
}
