package gguf

import "fmt"

const (
	magic            = "GGUF"
	defaultAlignment = 32
	maxDims          = 4 // ggml's limit

	minPair   = 8 + 4 + 1         // bytes: an empty key, its type, one byte
	minTensor = 8 + 4 + 8 + 4 + 8 // bytes: an empty name, one dimension, type, offset

	maxHeader = 1 << 30 // bytes; real ones have tens of millions at most
)

// parse reads the header in data, the bytes of a whole file, checks it against itself and against the file's size, and
// cuts the tensors' windows.
func parse(data []byte) (*File, error) {
	c := &cursor{data: data[:min(len(data), maxHeader)]}
	f := &File{Metadata: map[string]any{}}
	if err := f.start(c); err != nil {
		return nil, err
	}
	tensors := c.count(minTensor, "tensors")
	pairs := c.count(minPair, "metadata pairs")
	f.metadata(c, pairs)
	if c.err != nil {
		return nil, c.err
	}
	var err error
	if f.Alignment, err = alignment(f.Metadata); err != nil {
		return nil, err
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

// alignment is what metadata says of it, in bytes.
func alignment(metadata map[string]any) (int, error) {
	v, ok := metadata["general.alignment"]
	if !ok {
		return defaultAlignment, nil
	}
	n, isUint32 := v.(uint32)
	if !isUint32 || n == 0 || n&(n-1) != 0 {
		return 0, fmt.Errorf("general.alignment is %v (%T); it must be a power of two, as uint32", v, v)
	}
	return int(n), nil
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
