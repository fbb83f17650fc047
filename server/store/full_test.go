//go:build linux

package store

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/internal/testkit/subprocess"
)

// limitFiles lets files grow to n bytes only, as a full disk would; calling what it returns makes room again.
func limitFiles(t *testing.T, n uint64) (room func()) {
	t.Helper()
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: n, Max: was.Max}); err != nil {
		t.Skipf("file sizes cannot be limited here: %v", err)
	}
	room = func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(room)
	return room
}

// TestFullDisk: what has no room is refused and leaves nothing behind; a journal is as it was, and goes on with room.
func TestFullDisk(t *testing.T) {
	if !subprocess.In(t) {
		return
	}
	s := open(t, t.TempDir())
	b, err := s.NewBatch(Batch{})
	if err != nil {
		t.Fatal(err)
	}
	j, err := s.Journal(b.ID)
	if err != nil {
		t.Fatal(err)
	}
	line := func(i int) []byte {
		return fmt.Appendf(nil, `{"custom_id": "%d", "text": "%s"}`, i, strings.Repeat("x", 300))
	}
	room := limitFiles(t, 1000)
	n := 0
	for ; n < 10; n++ {
		if err := j.Append(Output, Line{fmt.Sprint(n), line(n)}); err != nil {
			if !IsFull(err) {
				t.Fatal(err)
			}
			break
		}
	}
	if n == 0 || n > 3 || j.Lines(Output) != n {
		t.Fatalf("%d lines fitted, the journal says %d", n, j.Lines(Output))
	}
	if _, err := create(s, "big", time.Time{}, bytes.NewReader(make([]byte, 5000)), 1<<20); !IsFull(err) || len(s.Files()) != 0 {
		t.Errorf("%v, files %v", err, s.Files())
	}
	room()
	if err := j.Append(Output, Line{fmt.Sprint(n), line(n)}); err != nil {
		t.Fatal(err)
	}
	id, _, err := j.Finish()
	if err != nil {
		t.Fatal(err)
	}
	f, err := s.Open(id)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if want := string(line(0)) + "\n"; err != nil || !strings.HasPrefix(string(data), want) || strings.Count(string(data), "\n") != n+1 {
		t.Errorf("%d lines of %d, %v", strings.Count(string(data), "\n"), n+1, err)
	}
}
