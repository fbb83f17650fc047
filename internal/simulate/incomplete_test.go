package simulate

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/engine/sched"
)

// TestIncompleteRecordings: wherever a recording is cut it says so, and what is there is replayed; a line that was lost or changed in
// the middle refuses all of it.
func TestIncompleteRecordings(t *testing.T) {
	whole := record(t, sched.FCFS, "radix", false)
	if r := read(t, whole); r.Incomplete != "" {
		t.Errorf("a complete recording is called incomplete: %s", r.Incomplete)
	}
	for cut := len(whole) - 2; cut > len(whole)/2; cut -= len(whole)/20 + 1 {
		r, err := ReadRecording("cut", bytes.NewReader(whole[:cut]))
		if err != nil || r.Incomplete == "" {
			t.Fatalf("cut at byte %d of %d: %v", cut, len(whole), err)
		}
		if c, _, err := Replay(r); err != nil || c.Differs != "" {
			t.Errorf("cut at byte %d: %+v, %v", cut, c, err)
		}
	}
	lines := bytes.SplitAfter(whole, []byte("\n"))
	stepped := slices.IndexFunc(lines, func(l []byte) bool { return bytes.HasPrefix(l, []byte(`{"stepped_ns"`)) })
	lines[stepped] = []byte(`{"stepped_ns":5}` + "\n")
	for name, text := range map[string][]byte{
		"or some were changed":         bytes.Join(lines, nil),
		"it comes after the last line": append(slices.Clone(whole), `{"left":0}`+"\n"...),
	} {
		if _, err := ReadRecording("bad", bytes.NewReader(text)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %s", err, name)
		}
	}
}
