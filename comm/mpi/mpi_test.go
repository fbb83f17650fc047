package mpi

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/comm/commtest"
)

// inRank says that this process is one that the test has had mpirun start.
const inRank = "RIDGE_TEST_MPI"

// starters are the programs that start processes, by library: Debian has both under names of their own.
var starters = map[string][]string{
	"MPICH":    {"mpirun.mpich"},
	"Open MPI": {"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"},
}

// TestRanks: processes that each MPI's mpirun has started exchange numbers, and a call that waits ends when the group is aborted.
func TestRanks(t *testing.T) {
	if os.Getenv(inRank) != "" {
		rank(t)
		return
	}
	ran := 0
	for name, start := range starters {
		path, err := exec.LookPath(start[0])
		if err != nil {
			continue
		}
		ran++
		t.Run(name, func(t *testing.T) {
			for _, n := range []string{"1", "3"} {
				args := append(append([]string{}, start[1:]...), "-n", n, os.Args[0], "-test.run=^TestRanks$", "-test.timeout=60s")
				cmd := exec.Command(path, args...)
				cmd.Env = append(os.Environ(), inRank+"="+name)
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Errorf("%s ranks: %v\n%s", n, err, out)
				}
			}
		})
	}
	if ran == 0 {
		t.Skip("no MPI is installed (Debian: apt-get install mpich openmpi-bin)")
	}
}

// rank is what each process does.
func rank(t *testing.T) {
	l, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	if want := os.Getenv(inRank); l.Name() != want {
		t.Errorf("%s has started this process, which has loaded %s", want, l.Name())
	}
	if _, err := Open(); err == nil || !strings.Contains(err.Error(), "started in this process before") {
		t.Errorf("MPI is started a second time: %v", err)
	}
	number, size, err := l.World()
	if err != nil {
		t.Fatal(err)
	}
	all, odd := []int{}, []int{}
	for i := range size {
		if all = append(all, i); i%2 == number%2 {
			odd = append(odd, i)
		}
	}
	whole, err := l.Group(all, number)
	if err != nil {
		t.Fatal(err)
	}
	half, err := l.Group(odd, number/2)
	if err != nil {
		t.Fatal(err)
	}
	commtest.Rank(t, whole)
	commtest.Rank(t, half)
	if err := whole.AllReduce(make([]float32, 3+number%2)); size > 1 && (err == nil || !strings.Contains(err.Error(), "numbers to an all-reduce") && !strings.Contains(err.Error(), "runcate")) {
		t.Errorf("lengths that differ: %v", err)
	}
	if size > 1 {
		aborted(t, half, number)
	}
	if err := l.Close(10 * time.Second); err != nil {
		t.Error(err)
	}
}

// aborted has ranks 0 and 2 of three wait for what does not come, until they are told so.
func aborted(t *testing.T, r *Rank, number int) {
	if r.Size() < 2 {
		return
	}
	gone := errors.New("another rank is gone")
	time.AfterFunc(50*time.Millisecond, func() { r.Abort(gone) })
	if err := r.Recv(1-number/2, make([]float32, 4)); !errors.Is(err, gone) {
		t.Errorf("a call that waits ends with %v", err)
	}
	if err := r.AllReduce(make([]float32, 4)); !errors.Is(err, gone) {
		t.Errorf("a call of a group that was aborted gives %v", err)
	}
}
