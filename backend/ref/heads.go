package ref

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// storeHeads rounds a token's keys or values to the type of a cache. With I8 the numbers of all heads come first, and then
// their scales.
func storeHeads(dst []byte, t graph.Type, axis graph.Axis, x []float32) {
	if t != graph.I8 {
		store(dst, t, x)
		return
	}
	numbers, scales := dst[:len(x)], dst[len(x):]
	for h := range axis.Count {
		part := numbers[h*axis.Size : (h+1)*axis.Size]
		scale := quant.EncodeInt8(unsafe.Slice((*int8)(unsafe.Pointer(&part[0])), len(part)), x[h*axis.Size:(h+1)*axis.Size])
		binary.LittleEndian.PutUint32(scales[4*h:], math.Float32bits(scale))
	}
}

// loadHeads decodes them.
func loadHeads(dst []float32, t graph.Type, axis graph.Axis, src []byte) {
	if t != graph.I8 {
		load(dst, t, src)
		return
	}
	for i := range dst {
		scale := math.Float32frombits(binary.LittleEndian.Uint32(src[len(dst)+4*(i/axis.Size):]))
		dst[i] = float32(int8(src[i])) * scale
	}
}
