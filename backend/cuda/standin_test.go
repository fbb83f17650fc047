package cuda

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/ridge-llm/ridge/backend/cuda/ptx"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/testkit"
	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// TestOnStandIn has a stand-in for NVIDIA's driver, whose kernels do nothing, run the cases of the op table and whole layers: all that the host does
// for a step is done, from compiling, fusing and recording to the launches' shapes, on machines without a GPU too. What kernels compute is
// compared in TestOps and TestFused, on a GPU. It is a process of its own because the loader looks for libraries where it was told to at its start.
func TestOnStandIn(t *testing.T) {
	if os.Getenv("RIDGE_TEST_STANDIN") != "" {
		for _, arch := range archs {
			onStandIn(t, arch)
		}
		return
	}
	dir := t.TempDir()
	standIn(t, "driver/testdata/libcuda.c", filepath.Join(dir, "libcuda.so.1"))
	cmd := exec.Command(os.Args[0], "-test.run=^(TestOnStandIn|TestLaunchSequence|TestFusedTimes|TestPlainSteps|TestSwap|TestUpload|TestUploadOfCutFile|TestHiddenStates|TestGroup|TestGroupRefused|TestRanksSample|TestWrite|TestMixedGroup|TestExpertsOnHost|TestExpertCacheOnHost|TestSetExpert)$", "-test.timeout=5m")
	log := filepath.Join(dir, "launches")
	if err := os.WriteFile(log, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	downloads := filepath.Join(dir, "downloads")
	cmd.Env = append(os.Environ(), "RIDGE_TEST_STANDIN=1", "FAKE_LOG="+log, "FAKE_DOWNLOADS="+downloads, "LD_LIBRARY_PATH="+dir, "FAKE_ARCH=90", "FAKE_SMS=132", "FAKE_MB=4096", "FAKE_GPUS=2")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// standIn makes the stand-in for a library of a C source of this folder.
func standIn(t *testing.T, source, library string) {
	cc, missing := exec.LookPath("cc")
	_, elsewhere := os.Stat(source)
	if missing != nil || elsewhere != nil || runtime.GOOS != "linux" {
		t.Skip("the stand-ins for NVIDIA's libraries are for Linux, made with a C compiler from their source in this folder")
	}
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-O1", "-o", library, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestNCCLOnStandIn: groups of NCCL begin, exchange and end, after an error too, though it waits for all ranks at first and for graphs at the end.
func TestNCCLOnStandIn(t *testing.T) {
	dir := t.TempDir()
	standIn(t, "driver/testdata/libcuda.c", filepath.Join(dir, "libcuda.so.1"))
	standIn(t, "nccl/testdata/libnccl.c", filepath.Join(dir, "libnccl.so.2"))
	cmd := exec.Command(os.Args[0], "-test.run=^TestGroup$", "-test.timeout=3m")
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir, "FAKE_ARCH=90", "FAKE_SMS=132", "FAKE_MB=4096", "FAKE_GPUS=2")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// onStandIn runs them; of the kernels for an older GPU than the stand-in is, one case of each variant.
func onStandIn(t *testing.T, arch int) {
	d, err := New(Options{Arch: arch})
	if err != nil {
		t.Fatal(err)
	}
	all, err := opTests()
	if err != nil {
		t.Fatal(err)
	}
	layers, err := fusedTests()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range append(chosen(all, d, arch != 0), layers...) {
		t.Run(fmt.Sprintf("arch%d/%s", arch, o.name), func(t *testing.T) {
			g, err := o.fused(d)
			if err != nil {
				t.Fatal(err)
			}
			_, err = testkit.Outputs(g, d, zeros{o.files}, o.lim, o.batches)
			if errors.Is(err, ptx.ErrMissing) && os.Getenv("CI") != "true" {
				_ = d.Close() // its loader starts no kernels any more
				if d, err = New(Options{Arch: arch}); err == nil {
					t.Skip("the source of one of its kernels is newer than the PTX; make ptx rebuilds that")
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// zeros are weights whose every byte is 0, for what does not look at numbers.
type zeros struct{ graph *graph.Graph }

func (z zeros) Tensor(name string) (quant.Tensor, bool) {
	for _, w := range z.graph.Weights {
		if w.Recipe == recipe.Tensor(name) {
			rows, cols := w.Matrices()*w.Out.Len(), w.In.Len()
			t := quant.Tensor{Format: w.Format, Rows: rows, Cols: cols, Data: make([]byte, int64(rows)*w.Format.RowBytes(cols))}
			if w.Format.Descriptor().Sparsity.Kept == 0 {
				return t, true
			}
			return t, quant.Encode(w.Format, t.Data, make([]float32, rows*cols)) == nil // a block of zeros has masks
		}
	}
	return quant.Tensor{}, false
}

func (zeros) Release([]byte) {}
