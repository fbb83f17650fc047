package imatrix

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func example() *Matrix {
	return &Matrix{ChunkSize: 512, Chunks: 3, Datasets: []string{"wiki.txt"}, Entries: map[string]Entry{
		"blk.0.attn_q.weight":        {Squares: []float32{1536, 0, 3, 1e6}, Counts: []float32{1536}},
		"blk.0.ffn_down_exps.weight": {Squares: []float32{8, 16, 0, 0}, Counts: []float32{4, 0}},
	}}
}

// TestRoundTrip: what either kind of file holds is read back: means of both, sums and counts of GGUF.
func TestRoundTrip(t *testing.T) {
	for _, name := range []string{"imatrix.gguf", "imatrix.dat"} {
		path, want := filepath.Join(t.TempDir(), name), example()
		if err := want.Write(path); err != nil {
			t.Fatal(err)
		}
		got, err := Read(path)
		if err != nil {
			t.Fatal(err)
		}
		if got.Chunks != 3 || len(got.Datasets) != 1 || got.Datasets[0] != "wiki.txt" || len(got.Entries) != 2 {
			t.Errorf("%s: %+v", name, got)
		}
		for entry, e := range want.Entries {
			means := got.Entries[entry].Means()
			for i, v := range e.Means() {
				if math.Abs(float64(means[i]-v)) > 1e-6*float64(v) {
					t.Errorf("%s: mean %d of %s is %g, want %g", name, i, entry, means[i], v)
				}
			}
		}
	}
}

// TestDat: the bytes of a file as llama.cpp writes it.
func TestDat(t *testing.T) {
	path := filepath.Join(t.TempDir(), "imatrix.dat")
	data := "\x01\x00\x00\x00\x03\x00\x00\x00abc\x02\x00\x00\x00\x01\x00\x00\x00\x00\x00\xc0\x40\x07\x00\x00\x00\x01\x00\x00\x00x"
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if x := m.Entries["abc"].Means(); len(x) != 1 || x[0] != 3 || m.Chunks != 7 {
		t.Errorf("%+v", m)
	}
}

// TestDamaged: what is no importance matrix is refused in a sentence.
func TestDamaged(t *testing.T) {
	bad := example()
	bad.Entries["blk.0.attn_q.weight"].Squares[1] = float32(math.NaN())
	dir := t.TempDir()
	nan, whole := filepath.Join(dir, "nan.gguf"), filepath.Join(dir, "whole.dat")
	if err := bad.Write(nan); err != nil {
		t.Fatal(err)
	}
	if err := example().Write(whole); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(dir, "cut.dat")
	for n := 4; n < len(data)-16; n++ { // the text's name may be missing
		if err := os.WriteFile(cut, data[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(cut); err == nil || !strings.Contains(err.Error(), "cut short") {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
	if _, err := Read(nan); err == nil || !strings.Contains(err.Error(), "number 1 of entry blk.0.attn_q.weight is NaN") {
		t.Errorf("NaN: %v", err)
	}
	if _, err := Read(filepath.Join(dir, "none")); err == nil {
		t.Error("a file that is not there was read")
	}
}
