package archive

import (
	"bytes"
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPackUnpack(t *testing.T) {
	if _, err := exec.LookPath("zstd"); err != nil {
		t.Skip("the program zstd, which packs archives, is not installed (Debian: apt-get install zstd)")
	}
	want := []Entry{
		{Module: "gemm/packed/q4_0", Target: "sm_90a", Text: []byte(".version 8.3\n")},
		{Module: "norm/norm", Target: "sm_80", Text: bytes.Repeat([]byte("// a comment\n"), 1000)},
	}
	packed, err := Pack(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Unpack(packed)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := Pack([]Entry{{Module: "a", Target: "b", Text: []byte("no line feed")}}); err == nil {
		t.Error("a text that would run into the next one is packed")
	}
	if _, err := Unpack(packed[:len(packed)/2]); err == nil {
		t.Error("half an archive is no error")
	}
}
