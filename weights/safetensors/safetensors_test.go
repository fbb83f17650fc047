package safetensors

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// file puts a header and n bytes of data, counting up, together.
func file(header string, n int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	b = append(b, header...)
	for i := range n {
		b = append(b, byte(i))
	}
	return b
}

func TestParseByHand(t *testing.T) {
	f, err := parse(file(`{"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},"a":{"data_offsets":[0,4],"dtype":"I32","shape":[]}, "none":{"dtype":"F32","shape":[0,5],"data_offsets":[16,16]}}   `, 16))
	if err != nil {
		t.Fatal(err)
	}
	if f.Metadata["format"] != "pt" || len(f.Tensors) != 3 {
		t.Fatalf("metadata %v, tensors %v", f.Metadata, f.Tensors)
	}
	a, b, none := f.Tensors[0], f.Tensors[1], f.Tensors[2]
	if a.Name != "a" || a.DType != "I32" || len(a.Shape) != 0 || !bytes.Equal(a.Data, []byte{0, 1, 2, 3}) {
		t.Errorf("a is %v", a)
	}
	if b.Name != "b" || b.DType != "BF16" || !slices.Equal(b.Shape, []int{2, 3}) || len(b.Data) != 12 || b.Data[0] != 4 {
		t.Errorf("b is %v", b)
	}
	if none.Name != "none" || len(none.Data) != 0 {
		t.Errorf("none is %v", none)
	}
}

func TestCorruptFiles(t *testing.T) {
	one := func(entry string) []byte { return file(`{"w":`+entry+`}`, 8) }
	for _, c := range []struct {
		file []byte
		want string
	}{
		{nil, `it has 0 bytes, too few for a safetensors file; it is truncated or something else`},
		{binary.LittleEndian.AppendUint64(nil, 1<<63), `its header should take 9223372036854775808 bytes, and 100000000 are the most that the format allows; it is corrupt or not a safetensors file`},
		{binary.LittleEndian.AppendUint64(nil, 100_000_000), `its header should take 100000000 bytes, but 0 follow; it is truncated or not a safetensors file`},
		{file("", 0), `its header is not valid JSON at byte 0: unexpected EOF`},
		{file("[]", 0), `its header has [ where the header should begin`},
		{file("{\"w\xff\":1}", 0), `its header is not valid UTF-8`},
		{file(`{"w":`, 0), `its header is not valid JSON at byte 5: unexpected EOF`},
		{file(`{} {}`, 0), `its header goes on after its end, with {`},
		{file(`{"__metadata__":{"a":1}}`, 0), `its header has 1 where the metadata value of a should be a string`},
		{file(`{"__metadata__":{"a":"1","a":"2"}}`, 0), `its header has the key "a" twice in __metadata__`},
		{one(`3`), `its header has 3 where tensor "w" should begin`},
		{one(`{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"w":{}`), `its header has the key "w" twice in the header`},
		{one(`{"dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8]}`), `its header has the key "shape" twice in tensor "w"`},
		{one(`{"dtype":"F32","shape":[2]}`), `its header must give tensor "w" a dtype, a shape and two data_offsets`},
		{one(`{"dtype":"F32","shape":[2],"data_offsets":[0]}`), `its header must give tensor "w" a dtype, a shape and two data_offsets`},
		{one(`{"dtype":"F32","shape":[2],"data_offsets":[0,8],"more":1}`), `its header describes tensor "w" with "more"; only dtype, shape and data_offsets are known`},
		{one(`{"dtype":"Q4","shape":[2],"data_offsets":[0,8]}`), `its header gives tensor "w" the unknown dtype "Q4"`},
		{one(`{"dtype":32,"shape":[2],"data_offsets":[0,8]}`), `its header has 32 where the dtype of tensor "w" should be a string`},
		{one(`{"dtype":"F32","shape":2,"data_offsets":[0,8]}`), `its header has 2 where the shape of tensor "w" should begin`},
		{one(`{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}`), `its header has -2 in the shape of tensor "w", which takes whole numbers from 0`},
		{one(`{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}`), `its header has 2.0 in the shape of tensor "w", which takes whole numbers from 0`},
		{one(`{"dtype":"F32","shape":[[2]],"data_offsets":[0,8]}`), `its header has [ in the shape of tensor "w", which takes whole numbers from 0`},
		{one(`{"dtype":"F32","shape":[2],"data_offsets":[0,99999999999999999999]}`), `its header has 99999999999999999999 in the data_offsets of tensor "w", which takes whole numbers from 0`},
		{one(`{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}`), `its header gives tensor "w" the shape [4294967296 4294967296], whose product is absurd`},
		{one(`{"dtype":"F32","shape":[3],"data_offsets":[0,8]}`), `its header gives tensor "w" bytes 0 to 8, but F32 of shape [3] takes 12 bytes`},
		{one(`{"dtype":"F32","shape":[2],"data_offsets":[8,0]}`), `its header gives tensor "w" bytes 8 to 0, but F32 of shape [2] takes 8 bytes`},
		{one(`{"dtype":"F32","shape":[3],"data_offsets":[0,12]}`), `tensor "w" should fill bytes 0 to 12 of the data, which has 8; the file is truncated: get it again`},
		{one(`{"dtype":"F32","shape":[1],"data_offsets":[0,4]}`), `its tensors end at byte 4 of the data, which has 8; the file is corrupt`},
		{one(`{"dtype":"F32","shape":[1],"data_offsets":[4,8]}`), `no tensor has bytes 0 to 4 of the data, before tensor "w"; the file is corrupt`},
		{one(`{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"v":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}`), `tensors "w" and "v" overlap at byte 4 of the data`},
	} {
		f, err := parse(c.file)
		if err == nil || err.Error() != c.want {
			t.Errorf("%q\ngot  %v\nwant %s", c.file, err, c.want)
		}
		if f != nil {
			t.Errorf("a file comes with the error %v", err)
		}
	}
}

// writeSet writes a set of two shards with one tensor each, and an index.
func writeSet(t *testing.T, index string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string][]byte{
		"s1.safetensors":               file(`{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 8),
		"s2.safetensors":               file(`{"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"extra":{"dtype":"U8","shape":[1],"data_offsets":[4,5]}}`, 5),
		"model.safetensors.index.json": []byte(index),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestOpenIndex(t *testing.T) {
	dir := writeSet(t, `{"metadata":{"total_size":12,"more":[{}]},"weight_map":{"b":"s2.safetensors","a":"s1.safetensors"}}`)
	f, err := OpenIndex(dir + "/model.safetensors.index.json")
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Tensors) != 2 || f.Tensors[0].Name != "a" || f.Tensors[1].Name != "b" || f.Tensors[1].Data[3] != 3 || f.Metadata["format"] != "pt" {
		t.Errorf("metadata %v, tensors %v", f.Metadata, f.Tensors)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

func TestOpenIndexFaults(t *testing.T) {
	for index, want := range map[string]string{
		`{"weight_map":{"a":"s1.safetensors","c":"s3.safetensors"}}`: "shard 2 of 2, s3.safetensors, is missing; put it beside the index",
		`{"weight_map":{"a":"s1.safetensors","b":"s1.safetensors"}}`: `tensor "b" should be in s1.safetensors, and is not`,
		`{"weight_map":{"a":"../s1.safetensors"}}`:                   `it puts tensor "a" in "../s1.safetensors", which is not the name of a file beside it`,
		`{"weight_map":{"a":"s1.safetensors","a":"s2.safetensors"}}`: `it has the key "a" twice in weight_map`,
		`{"weight_map":{"a":1}}`:                                     "it has 1 where the shard of a should be a string",
		`{"weight_map":{}}`:                                          `it has no tensors in "weight_map"`,
		`{"metadata":{}}`:                                            `it has no tensors in "weight_map"`,
		`{"metadata":{`:                                              "it is not valid JSON: unexpected EOF",
		``:                                                           "it is not valid JSON at byte 0: unexpected EOF",
	} {
		path := filepath.Join(writeSet(t, index), "model.safetensors.index.json")
		if _, err := OpenIndex(path); err == nil || err.Error() != "safetensors: "+path+": "+want {
			t.Errorf("%s\ngot  %v\nwant safetensors: …: %s", index, err, want)
		}
	}
	dir := writeSet(t, `{"weight_map":{"a":"s1.safetensors","b":"s2.safetensors"}}`)
	if err := os.Truncate(dir+"/s2.safetensors", 20); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenIndex(dir + "/model.safetensors.index.json"); err == nil || !strings.HasPrefix(err.Error(), "safetensors: "+dir+"/s2.safetensors: its header should take") {
		t.Errorf("a truncated shard gave %v", err)
	}
}

// FuzzParse feeds arbitrary bytes; whatever parses must have tensors that fill the data.
func FuzzParse(f *testing.F) {
	f.Add(file(`{"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},"a":{"data_offsets":[0,4],"dtype":"I32","shape":[]}}   `, 16))
	f.Add(file(`{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"v":{"dtype":"U8","shape":[0],"data_offsets":[8,8]}}`, 8))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := parse(data)
		if err != nil {
			return
		}
		total := 0
		for _, x := range file.Tensors {
			n := dtypeBytes[x.DType]
			for _, s := range x.Shape {
				n *= s
			}
			if len(x.Data) != n {
				t.Fatalf("tensor %q of shape %d has %d bytes", x.Name, x.Shape, len(x.Data))
			}
			total += n
		}
		if header := binary.LittleEndian.Uint64(data); 8+header+uint64(total) != uint64(len(data)) {
			t.Fatalf("tensors of %d bytes after a header of %d in a file of %d", total, header, len(data))
		}
	})
}

// FuzzParseIndex feeds arbitrary text; whatever parses must name shards that are plain file names.
func FuzzParseIndex(f *testing.F) {
	f.Add([]byte(`{"metadata":{"total_size":12},"weight_map":{"b":"s2.safetensors","a":"s1.safetensors"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		x, err := parseIndex(text)
		if err != nil {
			return
		}
		for _, shard := range x.shards {
			if strings.Contains(shard, "/") || shard == ".." {
				t.Fatalf("shard %q", shard)
			}
		}
	})
}
