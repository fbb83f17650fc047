package gguf

import (
	"os"
	"path/filepath"
	"testing"
)

// TestCorruptFiles wants one sentence for every way in which a file can be wrong.
func TestCorruptFiles(t *testing.T) {
	huge := uint64(1) << 62
	for _, c := range []struct {
		file raw
		want string
	}{
		{nil, `it begins with "", not with "GGUF": it is not a GGUF file`},
		{raw("PK\x03\x04 a zip"), `it begins with "PK\x03\x04", not with "GGUF": it is not a GGUF file`},
		{raw("GGUF"), `the file ends at byte 4 inside the version, which needs 4 bytes from byte 4; it is truncated or corrupt`},
		{raw("GGUF").u32(1), `it is GGUF version 1, and Ridge reads 2 and 3; convert the model again with a current tool`},
		{raw("GGUF").u32(9), `it is GGUF version 9, and Ridge reads 2 and 3`},
		{raw("GGUF").u32(3 << 24), `it is a big-endian GGUF file, and Ridge reads little-endian ones; get the little-endian file`},
		{raw("GGUF").u32(3), `the file ends at byte 8 inside the number of tensors, which needs 8 bytes from byte 8; it is truncated or corrupt`},
		{head(huge, 0), `it claims 4611686018427387904 tensors, but 8 bytes follow, enough for 0 at most; it is truncated or corrupt`},
		{head(0, huge), `it claims 4611686018427387904 metadata pairs, but 0 bytes follow, enough for 0 at most; it is truncated or corrupt`},

		{head(0, 1).u64(huge).data(32), `the file ends at byte 64 inside the key of metadata pair 0, which needs 4611686018427387904 bytes from byte 32; it is truncated or corrupt`},
		{head(0, 1).str("key").u32(8).u64(100), `the file ends at byte 47 inside the value of metadata key "key", which needs 100 bytes from byte 47; it is truncated or corrupt`},
		{head(0, 1).str("key").u32(13).u64(0), `the value of metadata key "key" is of the unknown type 13`},
		{head(0, 1).str("key").u32(7).bytes(2), `the value of metadata key "key" is a bool with the value 2; only 0 and 1 are`},
		{head(0, 1).str("key").u32(9).u32(7).u64(2).bytes(0, 9), `the value of metadata key "key" is a bool with the value 9; only 0 and 1 are`},
		{head(0, 1).str("key").u32(9).u32(77).u64(0), `the value of metadata key "key" is an array of the unknown type 77`},
		{head(0, 1).str("key").u32(9).u32(4).u64(huge), `it claims 4611686018427387904 elements of the value of metadata key "key", but 0 bytes follow, enough for 0 at most; it is truncated or corrupt`},
		{head(0, 1).str("key").u32(9).u32(8).u64(2).str("a").u64(9), `the file ends at byte 68 inside the value of metadata key "key", which needs 9 bytes from byte 68; it is truncated or corrupt`},
		{head(0, 1).str("key").u32(9).u32(9).u64(1).u32(9).u64(1).u32(9).u64(1).u32(9).u64(1).data(64), `the value of metadata key "key" nests arrays more than 4 deep`},
		{head(0, 2).str("key").u32(0).bytes(1).str("key").u32(0).bytes(1), `the metadata key "key" occurs twice`},
		{head(0, 1).str("general.alignment").u32(4).u32(33), `general.alignment is 33 (uint32); it must be a power of two, as uint32`},
		{head(0, 1).str("general.alignment").u32(4).u32(0), `general.alignment is 0 (uint32); it must be a power of two, as uint32`},
		{head(0, 1).str("general.alignment").u32(8).str("32"), `general.alignment is 32 (string); it must be a power of two, as uint32`},

		{head(1, 0).tensor("w", 0, 0).data(32), `tensor "w" has 0 dimensions; 1 to 4 are possible`},
		{head(1, 0).tensor("w", 0, 0, 1, 1, 1, 1, 1).data(32), `tensor "w" has 5 dimensions; 1 to 4 are possible`},
		{head(2, 0).tensor("w", 0, 0, 1).tensor("w", 0, 32, 1).data(64), `the tensor name "w" occurs twice`},
		{head(1, 0).tensor("w", 41, 0, 256).data(64), `tensor "w" is in Q1_0, a format Ridge does not read; get the model in Q4_K, Q8_0 or another of its formats`},
		{head(1, 0).tensor("w", 4321, 0, 256).data(64), `tensor "w" is of the unknown tensor type 4321`},
		{head(1, 0).tensor("w", 0, 0, 4, 0).data(64), `tensor "w" has the size 0 in dimension 1`},
		{head(1, 0).tensor("w", 0, 0, 1<<32, 1<<32).data(64), `tensor "w" has the sizes [4294967296 4294967296], whose product is absurd`},
		{head(1, 0).tensor("w", 12, 0, 128, 2).data(144), `tensor "w" has rows of 128 numbers, which do not divide into Q4_K blocks of 256`},
		{head(1, 0).tensor("w", 0, 16, 4).data(64), `tensor "w" lies at offset 16, which is not a multiple of the alignment 32`},
		{head(1, 0).tensor("w", 0, 0, 9).data(32), `tensor "w" should fill bytes 64 to 100, but the file has 96; it is truncated: get it again`},
		{head(1, 0).tensor("w", 0, ^uint64(31), 9).data(64), `tensor "w" lies at offset 18446744073709551584, outside the file's 128 bytes; it is truncated or corrupt`},
		{head(2, 0).tensor("v", 0, 0, 9).tensor("w", 0, 32, 1).data(64), `tensors "v" and "w" overlap at offset 32`},
	} {
		f, err := parse(c.file)
		if err == nil || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
		if f != nil {
			t.Errorf("a file comes with the error %v", err)
		}
	}
}

// TestTruncatedAnywhere cuts a whole file at every byte: each cut is an error or, in the padding at its end, harmless.
func TestTruncatedAnywhere(t *testing.T) {
	file := sample(t)
	whole, err := parse(file)
	if err != nil {
		t.Fatal(err)
	}
	last := whole.Tensors[len(whole.Tensors)-1].Data
	padding := 0
	for (len(last)+padding)%64 != 0 {
		padding++
	}
	for n := range file {
		if _, err := parse(file[:n]); (err == nil) != (n >= len(file)-padding) {
			t.Fatalf("cut to %d of %d bytes: %v", n, len(file), err)
		}
	}
}

// FuzzParse feeds arbitrary bytes; whatever parses must have tensors inside the file.
func FuzzParse(f *testing.F) {
	f.Add(sample(f))
	f.Add([]byte(head(2, 1).str("a").u32(9).u32(8).u64(2).str("x").str("y").tensor("v", 0, 0, 8).tensor("w", 8, 32, 32, 2).data(32 + 68)))
	f.Add([]byte(head(0, 1).str("a").u32(9).u32(9).u64(2).u32(9).u64(0).u32(0).u64(1).bytes(5)))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := parse(data)
		if err != nil {
			return
		}
		total := 0
		for _, x := range file.Tensors {
			n := 1
			for _, s := range x.Shape {
				n *= s
			}
			if int64(len(x.Data)) != x.Format.RowBytes(n) {
				t.Fatalf("tensor %q of shape %d has %d bytes", x.Name, x.Shape, len(x.Data))
			}
			total += len(x.Data)
		}
		if total > len(data) {
			t.Fatalf("tensors of %d bytes in a file of %d", total, len(data))
		}
		if len(file.Keys) != len(file.Metadata) {
			t.Fatalf("%d keys for %d values", len(file.Keys), len(file.Metadata))
		}
	})
}

// TestHugeHeader wants a large (here sparse) file with an absurd string in its header refused, not read into memory.
func TestHugeHeader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "huge.gguf")
	if err := os.WriteFile(path, head(0, 1).str("key").u32(8).u64(3<<29), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 1<<31); err != nil {
		t.Skipf("no large file can be made here: %v", err)
	}
	want := "gguf: " + path + `: the value of metadata key "key" ends past byte 1073741824, where no header of a model does; it is corrupt`
	if _, err := Open(path); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}
