package gguf

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/quant"
)

// writeParts writes a file split in three with one tensor a part, and lets change alter what a part says of itself.
func writeParts(t *testing.T, change func(part int, metadata map[string]any, tensor *Output)) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for i := range 3 {
		metadata := map[string]any{keySplitNo: uint16(i), keySplitCount: uint16(3), keySplitTensors: int32(3)}
		tensor := counting(fmt.Sprintf("w%d", i), quant.F32, byte(i), 4)
		change(i, metadata, &tensor)
		var keys []string
		for key := range metadata {
			keys = append(keys, key)
		}
		var b bytes.Buffer
		if err := Write(&b, keys, metadata, []Output{tensor}); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, fmt.Sprintf("m-%05d-of-00003.gguf", i+1))
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestOpenSplit(t *testing.T) {
	dir := writeParts(t, func(part int, metadata map[string]any, _ *Output) {
		if part == 0 {
			metadata["general.name"] = "whole"
		}
	})
	f, err := Open(dir + "/m-00001-of-00003.gguf")
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Tensors) != 3 || f.Metadata["general.name"] != "whole" {
		t.Errorf("%d tensors of %v", len(f.Tensors), f.Metadata["general.name"])
	}
	for i, x := range f.Tensors {
		if x.Name != fmt.Sprintf("w%d", i) || x.Data[0] != byte(i) {
			t.Errorf("tensor %d is %s, % x", i, x.Name, x.Data)
		}
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

func TestOpenSplitFaults(t *testing.T) {
	none := func(int, map[string]any, *Output) {}
	for _, c := range []struct {
		name   string
		change func(int, map[string]any, *Output)
		after  func(dir string) error
		open   string
		want   string // DIR stands for the directory
	}{
		{"not the first", none, nil, "m-00002-of-00003.gguf",
			"gguf: DIR/m-00002-of-00003.gguf: it is part 2 of 3; give the first, DIR/m-00001-of-00003.gguf"},
		{"a part missing", none, func(dir string) error { return os.Remove(dir + "/m-00003-of-00003.gguf") }, "m-00001-of-00003.gguf",
			"gguf: DIR/m-00001-of-00003.gguf: part 3 of 3 is missing; put DIR/m-00003-of-00003.gguf beside it"},
		{"a part truncated", none, func(dir string) error { return os.Truncate(dir+"/m-00002-of-00003.gguf", 9) }, "m-00001-of-00003.gguf",
			"gguf: DIR/m-00002-of-00003.gguf: the file ends at byte 9 inside the number of tensors, which needs 8 bytes from byte 8; it is truncated or corrupt"},
		{"renamed", none, func(dir string) error { return os.Rename(dir+"/m-00001-of-00003.gguf", dir+"/m.gguf") }, "m.gguf",
			"gguf: DIR/m.gguf: it is part 1 of 3, but its name does not end in -00001-of-00003.gguf, by which the others would be found; name the parts so"},
		{"parts swapped", func(part int, m map[string]any, _ *Output) {
			if part == 1 {
				m[keySplitNo] = uint16(2)
			}
		}, nil, "m-00001-of-00003.gguf",
			"gguf: DIR/m-00002-of-00003.gguf: it should be part 2 of 3, but its metadata says part 3 of 3"},
		{"a tensor twice", func(part int, _ map[string]any, x *Output) {
			if part == 2 {
				x.Name = "w0"
			}
		}, nil, "m-00001-of-00003.gguf",
			`gguf: DIR/m-00001-of-00003.gguf: the tensor name "w0" occurs in two parts of the file`},
		{"a tensor too few", func(part int, m map[string]any, _ *Output) { m[keySplitTensors] = int32(4) }, nil, "m-00001-of-00003.gguf",
			"gguf: DIR/m-00001-of-00003.gguf: the parts hold 3 tensors together, but split.tensors.count says 4"},
		{"an odd count", func(part int, m map[string]any, _ *Output) { m[keySplitCount] = "3" }, nil, "m-00001-of-00003.gguf",
			`gguf: DIR/m-00001-of-00003.gguf: the metadata key "split.count" of a split file must be a whole number, not 3`},
		{"no file", none, nil, "x.gguf", "gguf: open DIR/x.gguf: no such file or directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := writeParts(t, c.change)
			if c.after != nil {
				if err := c.after(dir); err != nil {
					t.Fatal(err)
				}
			}
			_, err := Open(filepath.Join(dir, c.open))
			if want := strings.ReplaceAll(c.want, "DIR", dir); err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
}
