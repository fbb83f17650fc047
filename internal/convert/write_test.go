package convert

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/quant"
)

// counting is a matrix whose numbers are their own places.
func counting(rows, cols int, as quant.Format) *tensor {
	return &tensor{name: "w.weight", shape: []int{rows, cols}, format: quant.F32, as: as, rows: func(buf []byte, from, to int) []byte {
		for i := range (to - from) * cols {
			binary.LittleEndian.PutUint32(buf[4*i:], math.Float32bits(float32(from*cols+i)))
		}
		return buf
	}}
}

// TestSpansInOrder: rows come out in order and once, whichever goroutine encoded them.
func TestSpansInOrder(t *testing.T) {
	x := counting(3000, 1000, quant.F32)
	next, spans := 0, 0
	err := x.write(func(span []byte) error {
		spans++
		for ; len(span) > 0; span = span[4:] {
			if got := math.Float32frombits(binary.LittleEndian.Uint32(span)); got != float32(next) {
				t.Fatalf("number %d is %g", next, got)
			}
			next++
		}
		return nil
	})
	if err != nil || next != 3000*1000 || spans < 10 {
		t.Errorf("%d numbers in %d spans, %v", next, spans, err)
	}
}

func TestWriteStopsAtAnError(t *testing.T) {
	full := errors.New("the disk is full")
	calls := 0
	err := counting(5000, 1024, quant.Q8_0).write(func([]byte) error { calls++; return full })
	if err != full || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
}

// TestNumbersThatDoNotFit: a matrix with a number beyond a format is refused by name.
func TestNumbersThatDoNotFit(t *testing.T) {
	f := &file{meta: map[string]any{}, tensors: []tensor{*counting(400, 1000, quant.F16)}} // F16 ends at 65504
	out := filepath.Join(t.TempDir(), "m.gguf")
	err := f.write(t.Context(), out, nil)
	if err == nil || !strings.Contains(err.Error(), "w.weight") || !strings.Contains(err.Error(), "row 65: ") || exists(out) {
		t.Errorf("got %v", err)
	}
}

// TestStop: an interrupt ends writing and leaves nothing.
func TestStop(t *testing.T) {
	f := &file{meta: map[string]any{}, tensors: []tensor{*counting(5000, 1000, quant.F32)}}
	ctx, stop := context.WithCancel(t.Context())
	dir := t.TempDir()
	err := f.write(ctx, filepath.Join(dir, "m.gguf"), func(done, all int64) { stop() })
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "of 20000000 bytes written") {
		t.Errorf("got %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v is left behind, %v", left, err)
	}
}

func TestProgress(t *testing.T) {
	f := &file{meta: map[string]any{}, tensors: []tensor{*counting(1000, 1000, quant.F32), *counting(10, 10, quant.F32)}}
	f.tensors[1].name = "v.weight"
	var last, all int64
	if err := f.write(t.Context(), filepath.Join(t.TempDir(), "m.gguf"), func(done, of int64) { last, all = done, of }); err != nil {
		t.Fatal(err)
	}
	if want := int64(4 * (1000*1000 + 100)); last != want || all != want {
		t.Errorf("progress ends at %d of %d bytes; %d were written", last, all, want)
	}
}
