package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestTinyMemory: as make build links the program, limits so tiny that not even the runtime starts end with a sentence too.
func TestTinyMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("links the program")
	}
	program := filepath.Join(t.TempDir(), "ridge")
	build := exec.Command("go", "build", "-ldflags", "-E main.entry", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for limit, want := range map[string]string{
		"-v 100000": tooLittleAddressSpace, "-v 500000": tooLittleAddressSpace, "-v 800000": tooLittleAddressSpace, "-v 2097151": tooLittleAddressSpace,
		"-d 60000": tooLittleData, "-d 262143": tooLittleData, "-v 4000000": "ridge ", "-d 500000": "ridge ",
	} {
		out, err := exec.Command("sh", "-c", "ulimit "+limit+" && exec "+program+" version").CombinedOutput()
		if !strings.HasPrefix(string(out), want) || (err == nil) != (want == "ridge ") {
			t.Errorf("ulimit %s: %v, %q, want %q", limit, err, out, want)
		}
	}
}
