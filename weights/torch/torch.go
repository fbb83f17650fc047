// Package torch reads one tensor from the file that torch.save(tensor) writes: a ZIP archive with a pickle, which says shape, strides and type, and the numbers beside it.
//
// A pickle is a program, and loading one from elsewhere runs what its writer chose. Here nothing is run: the opcodes that torch writes for a tensor are read into a description, in
// which a call is a record of a name with its arguments, and that is compared with the one description that a tensor has. Everything else is refused.
package torch

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"strings"

	"github.com/ridge-llm/ridge/quant"
)

// MaxNumbers is the most numbers of a tensor.
const MaxNumbers = 1 << 28

// Tensor is numbers in row-major order.
type Tensor struct {
	Shape   []int
	Numbers []float32
}

// storages are the types of numbers that are read, and the bytes of each.
var storages = map[string]int{"FloatStorage": 4, "HalfStorage": 2, "BFloat16Storage": 2, "DoubleStorage": 8}

// Read reads the file's tensor, of floats of 16, 32 or 64 bits.
func Read(file []byte) (t Tensor, err error) {
	archive, err := zip.NewReader(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return t, fmt.Errorf("torch: not the ZIP archive that torch.save writes: %w", err)
	}
	parts := map[string]*zip.File{}
	for _, f := range archive.File {
		_, name, _ := strings.Cut(f.Name, "/") // all are in one folder
		if parts[name] != nil || f.Method != zip.Store {
			return t, fmt.Errorf("torch: %s is there twice or is compressed, which torch.save does not do", f.Name)
		}
		parts[name] = f
	}
	program, err := content(parts, "data.pkl", 1<<16)
	if err != nil {
		return t, err
	}
	if order, err := content(parts, "byteorder", 16); err == nil && string(order) != "little" {
		return t, fmt.Errorf("torch: the numbers' byte order is %q; little is possible", order)
	}
	d, err := describe(program)
	if err != nil {
		return t, err
	}
	data, err := content(parts, "data/"+d.key, len(file))
	if err != nil {
		return t, err
	}
	return d.read(data)
}

// content is a part of the archive, of so many bytes at most.
func content(parts map[string]*zip.File, name string, most int) ([]byte, error) {
	f := parts[name]
	if f == nil {
		return nil, fmt.Errorf("torch: the archive has no %s", name)
	}
	if f.UncompressedSize64 > uint64(most) {
		return nil, fmt.Errorf("torch: %s has %d bytes; at most %d are read", f.Name, f.UncompressedSize64, most)
	}
	r, err := f.Open()
	if err != nil {
		return nil, fmt.Errorf("torch: %s: %w", f.Name, err)
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, int64(most)))
	if err != nil {
		return nil, fmt.Errorf("torch: %s: %w", f.Name, err)
	}
	return data, nil
}

// description is where the tensor's numbers are.
type description struct {
	storage, key   string
	count, offset  int64 // numbers of the storage, and before the tensor's first
	shape, strides []int64
}

var errShape = errors.New("torch: the pickle does not describe one dense tensor; save it with torch.save(tensor.cpu().contiguous(), …)")

// describe reads the pickle.
func describe(program []byte) (d description, err error) {
	top, err := run(program)
	if err != nil {
		return d, err
	}
	made, ok := top.(call)
	if !ok || made.of != "torch._utils _rebuild_tensor_v2" || len(made.args) != 6 {
		return d, errShape
	}
	kept, ok1 := made.args[0].(persistent)
	offset, ok2 := made.args[1].(int64)
	shape, ok3 := numbers(made.args[2])
	strides, ok4 := numbers(made.args[3])
	_, ok5 := made.args[4].(bool)
	hooks, ok6 := made.args[5].(call)
	if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 || !ok6 || hooks.of != "collections OrderedDict" || len(hooks.args) != 0 || len(kept) != 5 || kept[0] != "storage" {
		return d, errShape
	}
	storage, ok1 := kept[1].(global)
	key, ok2 := kept[2].(string)
	_, ok3 = kept[3].(string) // the device that it was on
	count, ok4 := kept[4].(int64)
	if !ok1 || !ok2 || !ok3 || !ok4 || key == "" || key != path.Base(key) {
		return d, errShape
	}
	name, ok := bytes.CutPrefix([]byte(storage), []byte("torch "))
	if !ok || storages[string(name)] == 0 {
		return d, fmt.Errorf("torch: the tensor's numbers are a %s; float32, float16, bfloat16 and float64 are possible", storage)
	}
	return description{string(name), key, count, offset, shape, strides}, nil
}

// numbers are those of a tuple.
func numbers(v any) (all []int64, ok bool) {
	list, ok := v.(tuple)
	for _, x := range list {
		n, is := x.(int64)
		if !is {
			return nil, false
		}
		all = append(all, n)
	}
	return all, ok
}

// read makes the tensor of its storage's bytes.
func (d *description) read(data []byte) (t Tensor, err error) {
	size := int64(storages[d.storage])
	if d.count < 0 || d.count > MaxNumbers || d.count*size != int64(len(data)) {
		return t, fmt.Errorf("torch: %d numbers of %d bytes are said to be in %d bytes", d.count, size, len(data))
	}
	if len(d.shape) != len(d.strides) || len(d.shape) > 8 || d.offset < 0 || d.offset > d.count {
		return t, fmt.Errorf("torch: a shape of %v with strides of %v from number %d on means nothing", d.shape, d.strides, d.offset)
	}
	total, last := int64(1), d.offset
	for i, n := range d.shape {
		s := d.strides[i]
		if n < 1 || n > MaxNumbers || s < 0 || s > MaxNumbers || total*n > MaxNumbers {
			return t, fmt.Errorf("torch: a shape of %v with strides of %v; 1 to %d numbers are possible, and strides of 0 or more", d.shape, d.strides, MaxNumbers)
		}
		total *= n
		last += (n - 1) * s
		t.Shape = append(t.Shape, int(n))
	}
	if last >= d.count {
		return t, fmt.Errorf("torch: the tensor reaches to number %d of a storage of %d", last, d.count)
	}
	if total > d.count {
		return t, fmt.Errorf("torch: the tensor has %d numbers, and its storage %d: it is expanded; save it with torch.save(tensor.contiguous(), …)", total, d.count)
	}
	t.Numbers = make([]float32, total)
	at := make([]int64, len(d.shape))
	from := d.offset
	for i := range t.Numbers {
		t.Numbers[i] = d.number(data[from*size:])
		for k := len(at) - 1; k >= 0; k-- {
			if at[k]++; at[k] < d.shape[k] {
				from += d.strides[k]
				break
			}
			from -= (d.shape[k] - 1) * d.strides[k]
			at[k] = 0
		}
	}
	return t, nil
}

// number is the first of some bytes.
func (d *description) number(b []byte) float32 {
	switch d.storage {
	case "HalfStorage":
		return quant.F16ToF32(binary.LittleEndian.Uint16(b))
	case "BFloat16Storage":
		return math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16)
	case "DoubleStorage":
		return float32(math.Float64frombits(binary.LittleEndian.Uint64(b)))
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(b))
}
