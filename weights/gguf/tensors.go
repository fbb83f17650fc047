package gguf

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/ridge-llm/ridge/quant"
)

// info is a tensor before its window is cut.
type info struct {
	Tensor
	offset, size uint64 // bytes, from the start of the data
}

// readInfos reads the descriptions of n tensors.
func readInfos(c *cursor, n int) []info {
	var infos []info // grown as they are read: n may claim much of a large file
	names := map[string]bool{}
	for i := range n {
		in := readInfo(c, i)
		if c.err == nil && names[in.Name] {
			c.fail("the tensor name %q occurs twice", in.Name)
		}
		if c.err != nil {
			return nil
		}
		names[in.Name] = true
		infos = append(infos, in)
	}
	return infos
}

func readInfo(c *cursor, i int) info {
	name := c.str(fmt.Sprintf("the name of tensor %d", i))
	what := fmt.Sprintf("the description of tensor %q", name)
	dims := c.u32(what)
	if c.err == nil && (dims == 0 || dims > maxDims) {
		c.fail("tensor %q has %d dimensions; 1 to %d are possible", name, dims, maxDims)
	}
	if c.err != nil {
		return info{}
	}
	sizes := make([]uint64, dims)
	for d := range sizes {
		sizes[d] = c.u64(what)
	}
	id, offset := c.u32(what), c.u64(what)
	format, err := formatOf(id)
	var in info
	if err == nil {
		in, err = newInfo(name, format, sizes)
	}
	if err != nil {
		c.fail("tensor %q %w", name, err) // after a truncation that one stays
	}
	in.offset = offset
	return in
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
		if in.offset > uint64(len(data)) {
			return fmt.Errorf("tensor %q lies at offset %d, outside the file's %d bytes; it is truncated or corrupt", in.Name, in.offset, len(data))
		}
		if start+in.offset+in.size > uint64(len(data)) {
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
