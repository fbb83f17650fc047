package gguf

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"

	"github.com/ridge-llm/ridge/weights/mmap"
)

// Open maps the file at path and reads its header. When path is the first part of a split file (its name ends in
// -00001-of-0000N.gguf), the others are opened with it: the metadata is that of the first part, the tensors are those of
// all. Any fault of a file is an error of one sentence that begins with its path.
func Open(path string) (*File, error) {
	f, err := openOne(path)
	if err != nil {
		return nil, err
	}
	no, count, err := f.split()
	if err == nil && count > 1 {
		err = f.openRest(path, no, count)
	} else if err != nil {
		err = fmt.Errorf("gguf: %s: %w", path, err)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func openOne(path string) (*File, error) {
	m, err := mmap.Open(path)
	if err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	f, err := parse(m.Bytes())
	if err != nil {
		m.Close()
		return nil, fmt.Errorf("gguf: %s: %w", path, err)
	}
	f.maps = mmap.Set{m}
	return f, nil
}

// The keys of a split file: which part this is, counted from 0, of how many, and how many tensors all have together.
const (
	keySplitNo      = "split.no"
	keySplitCount   = "split.count"
	keySplitTensors = "split.tensors.count"
)

// split says which part of how many f is; (0, 0) means it is whole.
func (f *File) split() (no, count int, err error) {
	if _, ok := f.Metadata[keySplitCount]; !ok {
		return 0, 0, nil
	}
	if count, err = f.splitNumber(keySplitCount); err == nil && count > 1 {
		no, err = f.splitNumber(keySplitNo)
	}
	return no, count, err
}

// splitNumber reads one of the keys above; llama.cpp writes them as uint16 and int32, others as uint32.
func (f *File) splitNumber(key string) (int, error) {
	switch v := f.Metadata[key].(type) {
	case uint16:
		return int(v), nil
	case uint32:
		return int(v), nil
	case int32:
		if v >= 0 {
			return int(v), nil
		}
	}
	return 0, fmt.Errorf("the metadata key %q of a split file must be a whole number, not %v", key, f.Metadata[key])
}

var splitName = regexp.MustCompile(`-(\d{5})-of-(\d{5})\.gguf$`)

// openRest adds the parts after the first, which f is and path names.
func (f *File) openRest(path string, no, count int) error {
	m := splitName.FindStringSubmatch(path)
	if m == nil || m[1] != part(no) || m[2] != part(count-1) {
		return fmt.Errorf("gguf: %s: it is part %d of %d, but its name does not end in -%s-of-%s.gguf, by which the others would be found; name the parts so", path, no+1, count, part(no), part(count-1))
	}
	stem := strings.TrimSuffix(path, m[0])
	partPath := func(i int) string { return fmt.Sprintf("%s-%s-of-%s.gguf", stem, part(i), part(count-1)) }
	if no != 0 {
		return fmt.Errorf("gguf: %s: it is part %d of %d; give the first, %s", path, no+1, count, partPath(0))
	}
	for i := 1; i < count; i++ {
		p, err := openOne(partPath(i))
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("gguf: %s: part %d of %d is missing; put %s beside it", path, i+1, count, partPath(i))
		}
		if err != nil {
			return err
		}
		f.maps = append(f.maps, p.maps...)
		f.Tensors = append(f.Tensors, p.Tensors...)
		if pno, pcount, err := p.split(); err != nil || pno != i || pcount != count {
			return fmt.Errorf("gguf: %s: it should be part %d of %d, but its metadata says part %d of %d", partPath(i), i+1, count, pno+1, pcount)
		}
	}
	return f.checkWhole(path)
}

// part writes part i, counted from 0, as the names of split files do.
func part(i int) string { return fmt.Sprintf("%05s", strconv.Itoa(i+1)) }

// checkWhole checks what only all parts together can show.
func (f *File) checkWhole(path string) error {
	names := make(map[string]bool, len(f.Tensors))
	for _, t := range f.Tensors {
		if names[t.Name] {
			return fmt.Errorf("gguf: %s: the tensor name %q occurs in two parts of the file", path, t.Name)
		}
		names[t.Name] = true
	}
	if _, ok := f.Metadata[keySplitTensors]; ok {
		if want, err := f.splitNumber(keySplitTensors); err != nil || want != len(f.Tensors) {
			return fmt.Errorf("gguf: %s: the parts hold %d tensors together, but %s says %v", path, len(f.Tensors), keySplitTensors, f.Metadata[keySplitTensors])
		}
	}
	return nil
}
