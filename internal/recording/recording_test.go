package recording

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/engine/sched"
)

// disk is a writer with room for so many bytes.
type disk struct {
	room, writes int
	text         strings.Builder
}

func (d *disk) Write(b []byte) (int, error) {
	d.writes++
	n := min(d.room, len(b))
	d.room -= n
	d.text.Write(b[:n])
	if n < len(b) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

// step records a request of one token.
func step(w *Writer, id int64) {
	w.Admitted(id, engine.NoParent, 0, &engine.Request{Prompt: []int32{1}, MaxTokens: 1})
	w.Scheduled(&sched.Schedule{Chunks: []sched.Chunk{{Request: &sched.Request{ID: id}, Tokens: 1}}})
	w.Output(id, engine.StepOutput{Tokens: []int32{2}, Reason: "length"})
	w.Stepped(time.Millisecond)
}

// TestFullDisk: the error is told when the last request of the engine has ended, once; nothing is written after it; Close returns it.
func TestFullDisk(t *testing.T) {
	var told []error
	d := &disk{room: 1000}
	w := NewWriter(d, func(err error) { told = append(told, err) })
	if err := w.Begin(Header{}); err != nil {
		t.Fatal(err)
	}
	for i := range int64(20) {
		step(w, i)
	}
	if len(told) != 1 || !errors.Is(told[0], syscall.ENOSPC) || !strings.Contains(told[0].Error(), "not complete") {
		t.Fatalf("%v was told", told)
	}
	writes := d.writes
	d.room = 1 << 20 // there is room again, and a hole in the recording
	step(w, 21)
	if err := w.Close(); !errors.Is(err, syscall.ENOSPC) || d.writes != writes || len(told) != 1 {
		t.Errorf("Close: %v after %d more writes; %v was told", err, d.writes-writes, told)
	}
}

// TestNothingInMemory: once no request runs, all that was recorded is written: kill -9 loses none of it.
func TestNothingInMemory(t *testing.T) {
	d := &disk{room: 1 << 20}
	w := NewWriter(d, nil)
	if err := w.Begin(Header{}); err != nil {
		t.Fatal(err)
	}
	step(w, 1)
	if !strings.HasSuffix(d.text.String(), `"stepped_ns":1000000}`+"\n") {
		t.Errorf("the file has %s", d.text.String())
	}
}
