package gguf

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/ridge-llm/ridge/quant"
)

// raw assembles a header byte by byte, so that files can be written that Write refuses to.
type raw []byte

func (r raw) u32(v uint32) raw { return order.AppendUint32(r, v) }
func (r raw) u64(v uint64) raw { return order.AppendUint64(r, v) }
func (r raw) bytes(b ...byte) raw {
	return append(r, b...)
}
func (r raw) str(s string) raw { return append(r.u64(uint64(len(s))), s...) }

// head begins a version 3 file.
func head(tensors, pairs uint64) raw {
	return append(raw{}, "GGUF"...).u32(3).u64(tensors).u64(pairs)
}

// tensor appends a description; sizes has the fastest dimension first.
func (r raw) tensor(name string, id uint32, offset uint64, sizes ...uint64) raw {
	r = r.str(name).u32(uint32(len(sizes)))
	for _, n := range sizes {
		r = r.u64(n)
	}
	return r.u32(id).u64(offset)
}

// data pads to 32 bytes and appends n bytes that count up.
func (r raw) data(n int) raw {
	for len(r)%32 != 0 {
		r = append(r, 0)
	}
	for i := range n {
		r = append(r, byte(i))
	}
	return r
}

// counting is an Output whose bytes count up from start.
func counting(name string, f quant.Format, start byte, shape ...int) Output {
	return Output{Name: name, Format: f, Shape: shape, Data: func(w io.Writer) error {
		n := 1
		for _, s := range shape {
			n *= s
		}
		b := make([]byte, f.RowBytes(n))
		for i := range b {
			b[i] = start + byte(i)
		}
		_, err := w.Write(b)
		return err
	}}
}

// everyType has a value of every type that metadata can take.
func everyType() (keys []string, metadata map[string]any) {
	values := []any{
		uint8(200), int8(-3), uint16(60000), int16(-300), uint32(4e9), int32(-5), float32(0.5), true, false, "llama é", uint64(1 << 63), int64(-1 << 62), 0.25,
		[]uint8{1, 255}, []int8{-1, 1}, []uint16{1, 65535}, []int16{-1}, []uint32{7}, []int32{-7, 0, 7}, []float32{1, -1}, []bool{true, false, true},
		[]string{"", "a", "\x00b", "ç"}, []uint64{1 << 40}, []int64{-1 << 40}, []float64{0.1}, []string{}, []float32{},
		[]any{[]int32{1}, []string{"x", "y"}, []any{[]bool{true}}}, "",
	}
	metadata = map[string]any{}
	for i, v := range values {
		key := fmt.Sprintf("test.%02d.%T", i, v)
		keys = append(keys, key)
		metadata[key] = v
	}
	return keys, metadata
}

// sample is a small whole file with everything in it.
func sample(t testing.TB) []byte {
	t.Helper()
	keys, metadata := everyType()
	keys = append(keys, "general.alignment")
	metadata["general.alignment"] = uint32(64)
	var b bytes.Buffer
	err := Write(&b, keys, metadata, []Output{
		counting("a", quant.F32, 0, 3),
		counting("b", quant.Q4_0, 100, 2, 64),
		counting("c", quant.BF16, 7, 2, 3, 5),
		counting("d", quant.Q6_K, 9, 1, 1, 1, 256),
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
