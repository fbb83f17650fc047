package torch_test

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/weights/torch"
)

// pickled is what torch.save writes of a tensor of floats into data.pkl, opcode by opcode (protocol 2).
func pickled(storage string, count, offset int, shape, strides []int) string {
	number := func(n int) string {
		switch {
		case n < 256:
			return "K" + string([]byte{byte(n)})
		case n < 65536:
			return "M" + string(binary.LittleEndian.AppendUint16(nil, uint16(n)))
		}
		return "J" + string(binary.LittleEndian.AppendUint32(nil, uint32(n)))
	}
	text := func(s string) string {
		return "X" + string(binary.LittleEndian.AppendUint32(nil, uint32(len(s)))) + s
	}
	tuple := func(all []int) (s string) {
		for _, n := range all {
			s += number(n)
		}
		return s + map[int]string{1: "\x85", 2: "\x86", 3: "\x87"}[len(all)]
	}
	return "\x80\x02ctorch._utils\n_rebuild_tensor_v2\nq\x00((" + text("storage") + "q\x01ctorch\n" + storage + "\nq\x02" + text("0") + "q\x03" + text("cpu") + "q\x04" + number(count) + "tq\x05Q" +
		number(offset) + tuple(shape) + "q\x06" + tuple(strides) + "q\x07\x89ccollections\nOrderedDict\nq\x08)Rq\ttq\nRq\x0b."
}

// archived is the archive around it.
func archived(t testing.TB, method uint16, parts ...string) []byte {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := 0; i < len(parts); i += 2 {
		f, err := w.CreateHeader(&zip.FileHeader{Name: parts[i], Method: method})
		if err == nil {
			_, err = f.Write([]byte(parts[i+1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// floats are numbers in float32.
func floats(all ...float32) string {
	var b []byte
	for _, x := range all {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return string(b)
}

// TestRead: tensors of every type, turned round and in the middle of their storage.
func TestRead(t *testing.T) {
	six := floats(1, 2, 3, 4, 5, 6)
	half := "\x00\x3c\x00\x40\x00\xc2"  // 1, 2, -3
	brain := "\x80\x3f\x00\x40\x40\xc0" // likewise
	double := string(binary.LittleEndian.AppendUint64(nil, math.Float64bits(-0.5)))
	for _, c := range []struct {
		pickle, data string
		shape        []int
		want         []float32
	}{
		{pickled("FloatStorage", 6, 0, []int{2, 3}, []int{3, 1}), six, []int{2, 3}, []float32{1, 2, 3, 4, 5, 6}},
		{pickled("FloatStorage", 6, 0, []int{3, 2}, []int{1, 3}), six, []int{3, 2}, []float32{1, 4, 2, 5, 3, 6}},
		{pickled("FloatStorage", 6, 2, []int{1, 2, 2}, []int{4, 2, 1}), six, []int{1, 2, 2}, []float32{3, 4, 5, 6}},
		{pickled("HalfStorage", 3, 0, []int{3}, []int{1}), half, []int{3}, []float32{1, 2, -3}},
		{pickled("BFloat16Storage", 3, 0, []int{3, 1}, []int{1, 1}), brain, []int{3, 1}, []float32{1, 2, -3}},
		{pickled("DoubleStorage", 1, 0, []int{1, 1}, []int{1, 1}), double, []int{1, 1}, []float32{-0.5}},
		{pickled("FloatStorage", 300, 0, []int{300, 1}, []int{1, 1}), strings.Repeat(floats(7), 300), []int{300, 1}, slices.Repeat([]float32{7}, 300)},
	} {
		for _, folder := range []string{"archive", "data"} {
			got, err := torch.Read(archived(t, zip.Store, folder+"/data.pkl", c.pickle, folder+"/.format_version", "1", folder+"/byteorder", "little", folder+"/data/0", c.data, folder+"/version", "3\n", folder+"/.data/serialization_id", "0"))
			if err != nil || !slices.Equal(got.Shape, c.shape) || !slices.Equal(got.Numbers, c.want) {
				t.Errorf("%q: %v, %v; %v of %v wanted", c.pickle, got, err, c.want, c.shape)
			}
		}
	}
}

// TestReadRefuses what is no tensor: other programs above all, which pickle.load would run.
func TestReadRefuses(t *testing.T) {
	six := floats(1, 2, 3, 4, 5, 6)
	good := pickled("FloatStorage", 6, 0, []int{2, 3}, []int{3, 1})
	file := func(pickle, data string) []byte {
		return archived(t, zip.Store, "a/data.pkl", pickle, "a/data/0", data)
	}
	for want, data := range map[string][]byte{
		"not the ZIP archive":     []byte("\x80\x02."),
		"is compressed":           archived(t, zip.Deflate, "a/data.pkl", good, "a/data/0", six),
		"has no data.pkl":         archived(t, zip.Store, "a/data/0", six),
		"has no data/0":           archived(t, zip.Store, "a/data.pkl", good),
		"byte order is":           archived(t, zip.Store, "a/data.pkl", good, "a/data/0", six, "a/byteorder", "big"),
		"at most 65536":           file(strings.Repeat("K\x00", 1<<16), six),
		"are said to be in":       file(good, six[1:]),
		"does not describe":       file("\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R.", six),
		"the opcode 'i'":          file("(ios\nsystem\n.", six),
		"the opcode '}'":          file(good[:len(good)-1]+"}b.", six),
		"LongStorage; float32":    file(pickled("LongStorage", 6, 0, []int{2, 3}, []int{3, 1}), six),
		"reaches to number 6":     file(pickled("FloatStorage", 6, 1, []int{2, 3}, []int{3, 1}), six),
		"it is expanded":          file(pickled("FloatStorage", 1, 0, []int{200, 3}, []int{0, 0}), six[:4]),
		"numbers are possible":    file(pickled("FloatStorage", 6, 0, []int{65535, 65535, 65535}, []int{0, 0, 0}), six),
		"a shape of [0 3]":        file(pickled("FloatStorage", 6, 0, []int{0, 3}, []int{3, 1}), six),
		"means nothing":           file(pickled("FloatStorage", 6, 0, []int{2, 3}, []int{3}), six),
		"does not describe one d": file(good[:len(good)-1], six),
	} {
		if got, err := torch.Read(data); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v; it should say %q", got, err, want)
		}
	}
}

// FuzzRead: no file makes it panic or give a tensor of another size than its shape.
func FuzzRead(f *testing.F) {
	six := floats(1, 2, 3, 4, 5, 6)
	f.Add(pickled("FloatStorage", 6, 0, []int{2, 3}, []int{3, 1}), six)
	f.Add(pickled("HalfStorage", 12, 1, []int{2, 3}, []int{1, 2}), six)
	f.Fuzz(func(t *testing.T, pickle, data string) {
		got, err := torch.Read(archived(t, zip.Store, "a/data.pkl", pickle, "a/data/0", data))
		if err != nil {
			return
		}
		n := 1
		for _, x := range got.Shape {
			n *= x
		}
		if n != len(got.Numbers) || n > len(data) {
			t.Errorf("%v has %d numbers of %d bytes", got.Shape, len(got.Numbers), len(data))
		}
	})
}
