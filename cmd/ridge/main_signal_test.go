//go:build unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestStopBySignal: a signal ends a program that does not look at it, in a process of its own.
func TestStopBySignal(t *testing.T) {
	if os.Getenv("RIDGE_TEST_SIGNAL") != "" {
		leaves.Store(int64(300 * time.Millisecond))
		ctx := stopBySignal()
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
		time.Sleep(time.Minute) // a call that does not return
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestStopBySignal$")
	cmd.Env = append(os.Environ(), "RIDGE_TEST_SIGNAL=1")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 128+int(syscall.SIGTERM) || !strings.Contains(string(out), "300ms after a signal") {
		t.Errorf("%v\n%s", err, out)
	}
}
