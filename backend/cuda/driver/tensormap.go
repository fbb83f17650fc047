package driver

import (
	"fmt"
	"unsafe"
)

// TensorMap is a TMA descriptor of a matrix (CUtensorMap); kernels take it by value as a 64-byte aligned parameter.
type TensorMap [128]byte

// Values of CUtensorMapDataType, CUtensorMapSwizzle and CUtensorMapL2promotion.
const (
	tensorBFloat16   = 9
	tensorSwizzle32  = 1
	tensorSwizzle128 = 3
	tensorPromote256 = 3
)

// MatrixMap describes a row-major matrix of bf16 in device memory: rows × cols, stride bytes from row to row (a multiple
// of 16), loaded in boxes of boxRows × boxCols. A box's row must be 128 bytes long: that is the swizzle the kernels'
// shared memory uses. Elements outside the matrix are loaded as zeros.
func (c *Context) MatrixMap(base Ptr, rows, cols, stride, boxRows, boxCols int) (TensorMap, error) {
	return c.tensorMap(base, []uint64{uint64(cols), uint64(rows)}, []uint64{uint64(stride)}, []uint32{uint32(boxCols), uint32(boxRows)}, tensorSwizzle128)
}

// PlanesMap describes planes of such matrices, planeStride bytes apart; a box has boxPlanes planes, one after the other.
func (c *Context) PlanesMap(base Ptr, planes, planeStride, rows, cols, stride, boxPlanes, boxRows, boxCols int) (TensorMap, error) {
	return c.tensorMap(base, []uint64{uint64(cols), uint64(rows), uint64(planes)}, []uint64{uint64(stride), uint64(planeStride)},
		[]uint32{uint32(boxCols), uint32(boxRows), uint32(boxPlanes)}, tensorSwizzle128)
}

// ColumnsMap describes the matrix that MatrixMap does, for boxes of several times 64 columns: shared memory gets the box's rows of the
// first 64 columns, then those of the next. cols must divide by 64.
func (c *Context) ColumnsMap(base Ptr, rows, cols, stride, boxRows, boxCols int) (TensorMap, error) {
	const each = 64
	return c.tensorMap(base, []uint64{each, uint64(rows), uint64(cols / each)}, []uint64{uint64(stride), 2 * each},
		[]uint32{each, uint32(boxRows), uint32(boxCols / each)}, tensorSwizzle128)
}

// NarrowMap describes a tensor of bf16 of two to five dimensions, for boxes whose rows are 32 bytes long: that is their swizzle. sizes, strides (bytes, of
// all dimensions but the first, multiples of 16) and box go from the innermost dimension outwards. A box may be larger than the tensor.
func (c *Context) NarrowMap(base Ptr, sizes, strides []uint64, box []uint32) (TensorMap, error) {
	return c.tensorMap(base, sizes, strides, box, tensorSwizzle32)
}

// tensorMap encodes a map; sizes, strides and box go from the innermost dimension outwards.
func (c *Context) tensorMap(base Ptr, sizes, strides []uint64, box []uint32, swizzle uintptr) (TensorMap, error) {
	m := new(struct {
		_   [64]byte // the driver needs 64-byte alignment, which no Go type has
		buf [192]byte
	})
	at := unsafe.Pointer(&m.buf)
	at = unsafe.Add(at, (64-uintptr(at)%64)%64)
	steps := []uint32{1, 1, 1, 1, 1}
	err := c.driver.call(fmt.Sprintf("encoding the tensor map of a matrix of %v in boxes of %v", sizes, box),
		cuTensorMapEncodeTiled, uintptr(at), tensorBFloat16, uintptr(len(sizes)), uintptr(base), uintptr(unsafe.Pointer(&sizes[0])),
		uintptr(unsafe.Pointer(&strides[0])), uintptr(unsafe.Pointer(&box[0])), uintptr(unsafe.Pointer(&steps[0])),
		0, swizzle, tensorPromote256, 0)
	return *(*TensorMap)(at), err
}
