// Package subprocess runs a test in a process of its own, whose limits it may change.
package subprocess

import (
	"os"
	"os/exec"
	"testing"
)

const variable = "RIDGE_TEST_CHILD"

// In runs the test in another process and reports whether this is that process: where it is false, the test is over. go test's log of the
// files that a test opens is a file too, which a limit of files' sizes would be for.
func In(t *testing.T) bool {
	t.Helper()
	if os.Getenv(variable) != "" {
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), variable+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	return false
}
