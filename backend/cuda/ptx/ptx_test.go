package ptx

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/ridge-llm/ridge/backend/cuda/ptx/source"
)

// complain reports PTX that is older than its source: an error under continuous integration (CI=true), which sees what is to be published, and a line
// of the log elsewhere, since PTX is rebuilt once for many changes of kernels.
func complain(t *testing.T) func(format string, args ...any) {
	if os.Getenv("CI") == "true" {
		return t.Errorf
	}
	return t.Logf
}

// TestTextIsOfTheSource needs no compiler: each file names the hash of the source it was made from.
func TestTextIsOfTheSource(t *testing.T) {
	complain := complain(t)
	jobs, err := source.Jobs("../kernels")
	if err != nil {
		t.Fatal(err)
	}
	if len(jobs) < 2 {
		t.Fatal("no kernels found")
	}
	for _, j := range jobs {
		file, err := files.ReadFile(j.File())
		if err != nil {
			complain("%v; run go generate ./backend/cuda/ptx", err)
			continue
		}
		if origin, err := source.Origin(bytes.NewReader(file)); err != nil || origin != j.Origin() {
			complain("%s was not made from the source as it is now; run go generate ./backend/cuda/ptx", j.File())
		}
	}
	made, err := filepath.Glob("*.ptx.gz")
	if err != nil || len(made) != len(jobs) {
		complain("there are %d PTX files for %d jobs (%v); delete what has no source", len(made), len(jobs), err)
	}
}

// TestTextIsWhatTheCompilerMakes rebuilds everything and compares text byte for byte.
func TestTextIsWhatTheCompilerMakes(t *testing.T) {
	if _, err := exec.LookPath(source.Compiler); err != nil {
		t.Skipf("%s is not installed, so the PTX is not rebuilt (Debian: apt-get install %s)", source.Compiler, source.Compiler)
	}
	if testing.Short() {
		t.Skip("compiling all kernels takes seconds")
	}
	jobs, err := source.Jobs("../kernels")
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs {
		t.Run(j.File(), func(t *testing.T) {
			t.Parallel()
			want, err := j.Compile()
			if err != nil {
				t.Fatal(err)
			}
			got, err := read(j.File())
			if err != nil || !bytes.Equal(got, want) {
				complain(t)("this is not what %s makes of the source (%v); run go generate ./backend/cuda/ptx", source.Compiler, err)
			}
		})
	}
}
