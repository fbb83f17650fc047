package gguf

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/quant"
)

// TestParseByHand reads a file put together from the specification, in both versions.
func TestParseByHand(t *testing.T) {
	file := head(2, 2).
		str("general.architecture").u32(8).str("llama").
		str("tokenizer.ggml.scores").u32(9).u32(6).u64(2).u32(0x3f800000).u32(0xbf800000).
		tensor("x", 0, 0, 3, 2).
		tensor("y", 8, 32, 32).
		data(32 + 34)
	for _, version := range []byte{2, 3} {
		file[4] = version
		f, err := parse(file)
		if err != nil {
			t.Fatal(err)
		}
		if f.Version != int(version) || f.Alignment != 32 || !slices.Equal(f.Keys, []string{"general.architecture", "tokenizer.ggml.scores"}) {
			t.Errorf("version %d, alignment %d, keys %q", f.Version, f.Alignment, f.Keys)
		}
		if f.Metadata["general.architecture"] != "llama" || !reflect.DeepEqual(f.Metadata["tokenizer.ggml.scores"], []float32{1, -1}) {
			t.Errorf("metadata %v", f.Metadata)
		}
		x, y := f.Tensors[0], f.Tensors[1]
		if x.Name != "x" || x.Format != quant.F32 || !slices.Equal(x.Shape, []int{2, 3}) || len(x.Data) != 24 || x.Data[1] != 1 {
			t.Errorf("x is %v", x)
		}
		if y.Name != "y" || y.Format != quant.Q8_0 || !slices.Equal(y.Shape, []int{32}) || len(y.Data) != 34 || y.Data[0] != 32 {
			t.Errorf("y is %v", y)
		}
	}
}

// TestParseWithoutTensors accepts a vocabulary alone, which may end without padding.
func TestParseWithoutTensors(t *testing.T) {
	f, err := parse(head(0, 1).str("a").u32(7).bytes(1))
	if err != nil || len(f.Tensors) != 0 || f.Metadata["a"] != true {
		t.Fatalf("%v, %v", f, err)
	}
}

func TestWriteThenParse(t *testing.T) {
	file := sample(t)
	f, err := parse(file)
	if err != nil {
		t.Fatal(err)
	}
	keys, metadata := everyType()
	if f.Version != 3 || f.Alignment != 64 || !slices.Equal(f.Keys[:len(keys)], keys) {
		t.Errorf("version %d, alignment %d, keys %q", f.Version, f.Alignment, f.Keys)
	}
	for key, want := range metadata {
		if got := f.Metadata[key]; !reflect.DeepEqual(got, want) {
			t.Errorf("%s came back as %#v, not %#v", key, got, want)
		}
	}
	wantShapes := [][]int{{3}, {2, 64}, {2, 3, 5}, {1, 1, 1, 256}}
	for i, x := range f.Tensors {
		if !slices.Equal(x.Shape, wantShapes[i]) || x.Data[1] != x.Data[0]+1 {
			t.Errorf("tensor %s has shape %d and begins with % x", x.Name, x.Shape, x.Data[:4])
		}
	}
	if first := f.Tensors[1].Data[0]; first != 100 || cap(f.Tensors[1].Data) != len(f.Tensors[1].Data) {
		t.Errorf("tensor b begins with %d and its window reaches past its end", first)
	}
}

func TestWriteRefuses(t *testing.T) {
	good := counting("w", quant.Q8_0, 0, 2, 32)
	meta := func(value any) map[string]any { return map[string]any{"k": value} }
	short := good
	short.Data = func(w io.Writer) error { _, err := w.Write(make([]byte, 67)); return err }
	broken := good
	broken.Data = func(io.Writer) error { return errors.New("disk on fire") }
	long := good
	long.Name = strings.Repeat("n", 64)
	for _, c := range []struct {
		keys     []string
		metadata map[string]any
		tensors  []Output
		want     string
	}{
		{nil, nil, []Output{good, good}, `the tensor name "w" occurs twice`},
		{nil, nil, []Output{long}, `the tensor name "` + long.Name + `" has 64 bytes, and readers take 63 at most`},
		{nil, nil, []Output{counting("w", quant.Q8_0, 0, 2, 33)}, `tensor "w" has rows of 33 numbers, which do not divide into Q8_0 blocks of 32`},
		{nil, nil, []Output{counting("w", quant.F32, 0)}, `tensor "w" has 0 dimensions; 1 to 4 are possible`},
		{nil, nil, []Output{{Name: "w", Format: quant.F32, Shape: []int{-1}}}, `tensor "w" has the size 0 in dimension 0`},
		{nil, nil, []Output{{Name: "w", Shape: []int{1}}}, `tensor "w" is in no number format`},
		{nil, nil, []Output{short}, `tensor "w" of shape [2 32] in Q8_0 takes 68 bytes, and 67 were given`},
		{nil, nil, []Output{broken}, `tensor "w": disk on fire`},
		{[]string{"k"}, meta(3), nil, `the metadata key "k" has a value of type int, which GGUF cannot hold`},
		{[]string{"k"}, meta([]any{1}), nil, `the metadata key "k" has a []any with an element of type int; only arrays can be its elements`},
		{[]string{"l"}, meta("v"), nil, `the metadata key "l" is in the order of keys, but not once in the metadata`},
		{nil, meta("v"), nil, `0 keys are in order, but the metadata has 1`},
		{[]string{"general.alignment"}, map[string]any{"general.alignment": uint32(24)}, nil, `general.alignment is 24 (uint32); it must be a power of two, as uint32`},
	} {
		err := Write(io.Discard, c.keys, c.metadata, c.tensors)
		if err == nil || err.Error() != "gguf: writing: "+c.want {
			t.Errorf("got  %v\nwant gguf: writing: %s", err, c.want)
		}
	}
}

// TestEveryFormatHasAType writes and reads a tensor of every format.
func TestEveryFormatHasAType(t *testing.T) {
	for _, f := range quant.Formats() {
		var b bytes.Buffer
		if err := Write(&b, nil, nil, []Output{counting("w", f, 0, 2, 256)}); err != nil {
			t.Fatal(err)
		}
		got, err := parse(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if got.Tensors[0].Format != f {
			t.Errorf("%s came back as %s", f, got.Tensors[0].Format)
		}
	}
}
