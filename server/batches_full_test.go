//go:build linux

package server_test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/internal/testkit/subprocess"
	"github.com/ridge-llm/ridge/server/store"
)

// TestFullDisk: with no room on the disk an upload is refused and nothing is kept of it; a batch says what it waits for,
// and with room again it finishes with every line there once.
func TestFullDisk(t *testing.T) {
	if !subprocess.In(t) {
		return
	}
	c, _ := withStore(t, t.TempDir(), ridge.Options{})
	b := c.begin("/v1/completions", "24h", batchInput(40, 5))
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	full := syscall.Rlimit{Cur: 3000, Max: was.Max} // no file may grow beyond this, as on a disk that is full
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full); err != nil {
		t.Skipf("file sizes cannot be limited here: %v", err)
	}
	room := func() { syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was) }
	defer room()
	b = c.until(b.ID, "stuck", func(b store.Batch) bool { return b.Errors != nil || b.Status.Over() })
	if b.Status != store.InProgress || b.Errors.Data[0].Code != "disk_full" || !strings.Contains(b.Errors.Data[0].Message, "file too large") || b.Counts.Completed == 0 {
		t.Errorf("%+v %+v", b, b.Errors)
	}
	status, _, text := c.upload("batch", strings.Repeat("x", 10000))
	if status != 507 || !strings.Contains(text, `"disk_full"`) || !strings.Contains(text, "nothing was stored") {
		t.Errorf("%d %s", status, text)
	}
	if text := c.get("/v1/files"); strings.Count(text, `"id"`) != 1 {
		t.Error(text)
	}
	room()
	b = c.until(b.ID, "over", over)
	if n := len(c.outcomes(b.Output)); b.Status != store.Completed || n != 40 || b.Errors != nil {
		t.Errorf("%d lines, %+v", n, b)
	}
}
