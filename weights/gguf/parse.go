package gguf

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/ridge-llm/ridge/quant"
)

const (
	magic            = "GGUF"
	defaultAlignment = 32
	maxDims          = 4 // ggml's limit

	minPair   = 8 + 4 + 1     // bytes: an empty key, its type, one byte
	minTensor = 8 + 4 + 4 + 8 // bytes: an empty name, no dimensions, type, offset
)

// parse reads the header in data, the bytes of a whole file, checks it against itself and against the file's size, and
// cuts the tensors' windows.
func parse(data []byte) (*File, error) {
	c := &cursor{data: data}
	f := &File{Alignment: defaultAlignment, Metadata: map[string]any{}}
	if err := f.start(c); err != nil {
		return nil, err
	}
	tensors := c.count(minTensor, "tensors")
	pairs := c.count(minPair, "metadata pairs")
	f.metadata(c, pairs)
	if c.err != nil {
		return nil, c.err
	}
	if v, ok := f.Metadata["general.alignment"]; ok {
		n, isUint32 := v.(uint32)
		if !isUint32 || n == 0 || n&(n-1) != 0 {
			return nil, fmt.Errorf("general.alignment is %v (%T); it must be a power of two, as uint32", v, v)
		}
		f.Alignment = int(n)
	}
	infos := readInfos(c, tensors)
	if c.err != nil {
		return nil, c.err
	}
	if err := f.cut(infos, data, c.at); err != nil {
		return nil, err
	}
	return f, nil
}

// start checks the magic and the version.
func (f *File) start(c *cursor) error {
	if !IsGGUF(c.data) {
		return fmt.Errorf("it begins with %q, not with %q: it is not a GGUF file", c.data[:min(4, len(c.data))], magic)
	}
	c.at = len(magic)
	version := c.u32("the version")
	swapped := version>>24 | version>>8&0xff00 | version<<8&0xff0000 | version<<24
	switch {
	case c.err != nil:
		return c.err
	case version == 1:
		return fmt.Errorf("it is GGUF version 1, and Ridge reads 2 and 3; convert the model again with a current tool")
	case version != 2 && version != 3 && swapped >= 1 && swapped <= 3:
		return fmt.Errorf("it is a big-endian GGUF file, and Ridge reads little-endian ones; get the little-endian file")
	case version != 2 && version != 3:
		return fmt.Errorf("it is GGUF version %d, and Ridge reads 2 and 3", version)
	}
	f.Version = int(version)
	return nil
}

// IsGGUF reports whether a file that begins with these bytes says it is GGUF.
func IsGGUF(head []byte) bool { return len(head) >= len(magic) && string(head[:len(magic)]) == magic }

func (f *File) metadata(c *cursor, pairs int) {
	for i := range pairs {
		key := c.str(fmt.Sprintf("the key of metadata pair %d", i))
		what := fmt.Sprintf("the value of metadata key %q", key)
		kind := c.u32(what)
		value := c.value(kind, what, 1)
		if c.err != nil {
			return
		}
		if _, twice := f.Metadata[key]; twice {
			c.fail("the metadata key %q occurs twice", key)
			return
		}
		f.Keys = append(f.Keys, key)
		f.Metadata[key] = value
	}
}

// info is a tensor before its window is cut.
type info struct {
	Tensor
	offset, size uint64 // bytes, from the start of the data
}

func readInfos(c *cursor, n int) []info {
	infos := make([]info, 0, n)
	names := make(map[string]bool, n)
	for i := range n {
		name := c.str(fmt.Sprintf("the name of tensor %d", i))
		what := fmt.Sprintf("the description of tensor %q", name)
		dims := c.u32(what)
		if c.err == nil && (dims == 0 || dims > maxDims) {
			c.fail("tensor %q has %d dimensions; 1 to %d are possible", name, dims, maxDims)
		}
		if c.err == nil && names[name] {
			c.fail("the tensor name %q occurs twice", name)
		}
		if c.err != nil {
			return nil
		}
		names[name] = true
		sizes := make([]uint64, dims)
		for d := range sizes {
			sizes[d] = c.u64(what)
		}
		id, offset := c.u32(what), c.u64(what)
		if c.err != nil {
			return nil
		}
		format, err := formatOf(id)
		if err == nil {
			var in info
			if in, err = newInfo(name, format, sizes); err == nil {
				in.offset = offset
				infos = append(infos, in)
			}
		}
		if err != nil {
			c.fail("tensor %q %w", name, err)
			return nil
		}
	}
	return infos
}

// newInfo works out a tensor's shape and size; sizes has the fastest dimension first.
func newInfo(name string, format quant.Format, sizes []uint64) (info, error) {
	count := uint64(1)
	shape := make([]int, len(sizes))
	for d, n := range sizes {
		if n == 0 {
			return info{}, fmt.Errorf("has the size 0 in dimension %d", d)
		}
		if n > math.MaxInt64/8/count { // 8 bytes a number are more than any format takes
			return info{}, fmt.Errorf("has the sizes %d, whose product is absurd", sizes)
		}
		count *= n
		shape[len(sizes)-1-d] = int(n)
	}
	if cols := sizes[0]; cols%uint64(format.Block()) != 0 {
		return info{}, fmt.Errorf("has rows of %d numbers, which do not divide into %s blocks of %d", cols, format, format.Block())
	}
	return info{Tensor: Tensor{Name: name, Format: format, Shape: shape}, size: uint64(format.RowBytes(int(count)))}, nil
}

// cut gives each tensor its window of data, whose header ends at headerEnd.
func (f *File) cut(infos []info, data []byte, headerEnd int) error {
	align := uint64(f.Alignment)
	start := (uint64(headerEnd) + align - 1) / align * align
	if len(infos) == 0 {
		return nil // a vocabulary alone may end without the padding
	}
	for _, in := range infos {
		if in.offset%align != 0 {
			return fmt.Errorf("tensor %q lies at offset %d, which is not a multiple of the alignment %d", in.Name, in.offset, align)
		}
		// start and in.size are far below 2⁶³, and so is the file: no sum wraps.
		if in.offset > uint64(len(data)) || start+in.offset+in.size > uint64(len(data)) {
			return fmt.Errorf("tensor %q should fill bytes %d to %d, but the file has %d; it is truncated: get it again", in.Name, start+in.offset, start+in.offset+in.size, len(data))
		}
		from, size := start+in.offset, in.size
		in.Data = data[from:][:size:size]
		f.Tensors = append(f.Tensors, in.Tensor)
	}
	byOffset := slices.Clone(infos)
	sort.Slice(byOffset, func(i, j int) bool { return byOffset[i].offset < byOffset[j].offset })
	for i, in := range byOffset[1:] {
		if before := byOffset[i]; before.offset+before.size > in.offset {
			return fmt.Errorf("tensors %q and %q overlap at offset %d", before.Name, in.Name, in.offset)
		}
	}
	return nil
}
