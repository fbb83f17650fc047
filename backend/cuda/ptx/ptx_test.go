package ptx

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/ridge-llm/ridge/backend/cuda/ptx/archive"
	"github.com/ridge-llm/ridge/backend/cuda/ptx/source"
)

// read is the archive's entries, what they were made from, and the sources as they are.
func read(t *testing.T) ([]archive.Entry, source.Sums, []source.Module) {
	t.Helper()
	entries, err := archive.Unpack(packed)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("kernels.txt")
	if err != nil {
		t.Fatal(err)
	}
	sums, err := source.ParseSums(string(text))
	if err != nil {
		t.Fatal(err)
	}
	modules, err := source.Modules("../kernels")
	if err != nil || len(modules) < 2 {
		t.Fatalf("%d kernels found: %v", len(modules), err)
	}
	return entries, sums, modules
}

// TestStale needs no compiler: it says which modules' PTX is older than their sources. That is an error under continuous integration (CI=true), which
// sees what is to be published, and a line of the log elsewhere: the archive is rebuilt once for many changes of kernels.
func TestStale(t *testing.T) {
	_, sums, modules := read(t)
	stale, gone := sums.Stale(modules)
	if len(stale)+len(gone) == 0 {
		return
	}
	complain := t.Logf
	if os.Getenv("CI") == "true" {
		complain = t.Errorf
	}
	complain("%d of %d modules are not what the PTX was made from (%v), and %d have no source any more (%v); run make ptx", len(stale), len(modules), stale, len(gone), gone)
}

// TestArchive holds the archive and the text beside it together.
func TestArchive(t *testing.T) {
	entries, sums, _ := read(t)
	if len(entries) != len(source.Targets)*len(sums) {
		t.Errorf("the archive has %d texts, kernels.txt %d modules for %d targets each", len(entries), len(sums), len(source.Targets))
	}
	for _, e := range entries {
		found := false
		for i, target := range source.Targets {
			s := sums[e.Module]
			found = found || target == e.Target && i < len(s.PTX) && s.PTX[i] == source.TextSum(e.Text)
		}
		if !found {
			t.Errorf("the PTX of %s for %s is not the one that kernels.txt names", e.Module, e.Target)
		}
	}
}

// sampled is how many modules there are to one that TestIsWhatTheCompilerMakes compiles, unless RIDGE_PTX=all: all of them take two minutes of a core.
const sampled = 8

// TestIsWhatTheCompilerMakes compiles modules that are not stale and compares text byte for byte. Which they are goes by the archive, so that
// another is held to others.
func TestIsWhatTheCompilerMakes(t *testing.T) {
	if _, err := exec.LookPath(source.Compiler); err != nil {
		t.Skipf("%s is not installed, so the PTX is not rebuilt (Debian: apt-get install %s)", source.Compiler, source.Compiler)
	}
	if testing.Short() {
		t.Skip("compiling kernels takes some seconds")
	}
	_, sums, modules := read(t)
	from, every := int(packed[len(packed)-1])%sampled, sampled
	if os.Getenv("RIDGE_PTX") == "all" {
		from, every = 0, 1
	}
	var group errgroup.Group
	group.SetLimit(2)
	for i, m := range modules {
		s := sums[m.Name]
		if s.Source != m.Hash || i%every != from {
			continue
		}
		for i, target := range source.Targets {
			group.Go(func() error {
				text, err := m.Compile(target)
				if err == nil && source.TextSum(text) != s.PTX[i] {
					t.Errorf("the PTX of %s for %s is not what %s makes of the source; run make ptx", m.Name, target, source.Compiler)
				}
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

func TestOpen(t *testing.T) {
	for arch, want := range map[int]string{80: ".target sm_80", 89: ".target sm_80", 90: ".target sm_90a", 120: ".target sm_80"} {
		texts, err := Open(arch)
		if err != nil {
			t.Fatal(err)
		}
		text, err := texts.Module("norm/norm")
		if err != nil || !bytes.Contains(text, []byte(want)) {
			t.Errorf("compute capability %d: no PTX with %q: %v", arch, want, err)
		}
		if _, err := texts.Module("norm/none"); err == nil {
			t.Error("a module that is not there is no error")
		}
	}
	if _, err := Open(75); err == nil {
		t.Error("compute capability 7.5 is no error")
	}
}

// BenchmarkOpen is what a start of the program waits for at most.
func BenchmarkOpen(b *testing.B) {
	for b.Loop() {
		if _, err := Open(90); err != nil {
			b.Fatal(err)
		}
	}
}
