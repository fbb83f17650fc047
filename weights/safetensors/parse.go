package safetensors

import (
	"encoding/binary"
	"fmt"
	"sort"
)

// metadataKey is the one key of the header that is not a tensor.
const metadataKey = "__metadata__"

// maxHeader is the reference implementation's limit, in bytes.
const maxHeader = 100_000_000

// entry is a tensor before its window is cut; from and to count bytes from the start of the data.
type entry struct {
	Tensor
	from, to int
}

// parse reads the header in data, the bytes of a whole file, checks it against itself and against the file's size, and
// cuts the tensors' windows.
func parse(data []byte) (*File, error) {
	if len(data) < 8 {
		return nil, fmt.Errorf("it has %d bytes, too few for a safetensors file; it is truncated or something else", len(data))
	}
	size := binary.LittleEndian.Uint64(data)
	rest := data[8:]
	if size > maxHeader {
		return nil, fmt.Errorf("its header should take %d bytes, and %d are the most that the format allows; it is corrupt or not a safetensors file", size, maxHeader)
	}
	if size > uint64(len(rest)) {
		return nil, fmt.Errorf("its header should take %d bytes, but %d follow; it is truncated or not a safetensors file", size, len(rest))
	}
	text, rest := rest[:size], rest[size:]
	f := &File{}
	entries, err := f.header(text)
	if err != nil {
		return nil, fmt.Errorf("its header %w", err)
	}
	if err := f.cut(entries, rest); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *File) header(text []byte) ([]entry, error) {
	w, err := newWalker(text)
	if err != nil {
		return nil, err
	}
	var entries []entry
	err = w.object("the header", func(name string) error {
		if name == metadataKey {
			f.Metadata = map[string]string{}
			return w.object(metadataKey, func(key string) error {
				value, err := w.str("the metadata value of " + key)
				f.Metadata[key] = value
				return err
			})
		}
		e, err := w.entry(name)
		entries = append(entries, e)
		return err
	})
	if err == nil {
		err = w.end()
	}
	return entries, err
}

// entry reads the description of one tensor.
func (w walker) entry(name string) (entry, error) {
	e := entry{Tensor: Tensor{Name: name}}
	var offsets []int
	what := fmt.Sprintf("tensor %q", name)
	err := w.object(what, func(key string) (err error) {
		switch key {
		case "dtype":
			var s string
			s, err = w.str("the dtype of " + what)
			e.DType = DType(s)
		case "shape":
			e.Shape, err = w.ints("the shape of " + what)
		case "data_offsets":
			offsets, err = w.ints("the data_offsets of " + what)
		default:
			err = fmt.Errorf("describes %s with %q; only dtype, shape and data_offsets are known", what, key)
		}
		return err
	})
	if err != nil {
		return e, err
	}
	if e.DType == "" || e.Shape == nil || len(offsets) != 2 {
		return e, fmt.Errorf("must give %s a dtype, a shape and two data_offsets", what)
	}
	e.from, e.to = offsets[0], offsets[1]
	return e, e.check(what)
}

// check compares the bytes a tensor has with those its dtype and shape need.
func (e entry) check(what string) error {
	need, err := e.DType.bytes(e.Shape)
	if err != nil {
		return fmt.Errorf("gives %s %w", what, err)
	}
	if e.to < e.from || e.to-e.from != need {
		return fmt.Errorf("gives %s bytes %d to %d, but %s of shape %d takes %d bytes", what, e.from, e.to, e.DType, e.Shape, need)
	}
	return nil
}

// cut gives each tensor its window of data. Together they must fill it: no gap, no overlap, nothing left over.
func (f *File) cut(entries []entry, data []byte) error {
	sort.SliceStable(entries, func(i, j int) bool {
		a, b := entries[i], entries[j]
		return a.from < b.from || a.from == b.from && a.to < b.to
	})
	at := 0
	for i, e := range entries {
		switch {
		case e.from < at:
			return fmt.Errorf("tensors %q and %q overlap at byte %d of the data", entries[i-1].Name, e.Name, e.from)
		case e.from > at:
			return fmt.Errorf("no tensor has bytes %d to %d of the data, before tensor %q; the file is corrupt", at, e.from, e.Name)
		case e.to > len(data):
			return fmt.Errorf("tensor %q should fill bytes %d to %d of the data, which has %d; the file is truncated: get it again", e.Name, e.from, e.to, len(data))
		}
		e.Data = data[e.from:e.to:e.to]
		f.Tensors = append(f.Tensors, e.Tensor)
		at = e.to
	}
	if at != len(data) {
		return fmt.Errorf("its tensors end at byte %d of the data, which has %d; the file is corrupt", at, len(data))
	}
	return nil
}
