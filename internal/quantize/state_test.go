package quantize

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/weights"
	"github.com/ridge-llm/ridge/weights/safetensors"
)

// TestResume: a run that is ended goes on, to the same bytes; with other settings it is refused, and what is half written is no model.
func TestResume(t *testing.T) {
	t.Run("small", func(t *testing.T) { resumed(t, small(t)) })
	t.Run("experts", func(t *testing.T) { resumed(t, smallOf(t, 3)) })
}

// resumed ends a run on a model and goes on with it.
func resumed(t *testing.T, model string) {
	o := Options{Method: MethodGPTQ, Grid: Grid{4, 32, true}, Rotate: true}
	whole := filepath.Join(t.TempDir(), "whole")
	dir := open(t, model)
	if _, err := Run(t.Context(), dir, someTokens(dir, 5, 24), whole, o); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	dir = open(t, model)
	ctx, stop := context.WithCancel(t.Context())
	first := o
	first.Progress = func(p Progress) {
		if p.Layer == 1 {
			stop()
		}
	}
	seqs := someTokens(dir, 5, 24)
	if _, err := Run(ctx, dir, seqs, out, first); !errors.Is(err, context.Canceled) {
		t.Fatalf("the first run ended with %v", err)
	}
	if _, err := modeldir.Open(out); err == nil {
		t.Error("half a model was opened")
	}
	other := o
	other.Grid.Bits = 3
	if _, err := Run(t.Context(), open(t, model), seqs, out, other); err == nil || !strings.Contains(err.Error(), "begun with other settings") {
		t.Errorf("other settings: %v", err)
	}
	r, err := Run(t.Context(), open(t, model), seqs, out, o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Resumed != 1 {
		t.Errorf("%d blocks were resumed", r.Resumed)
	}
	for _, name := range []string{"model.safetensors", "config.json"} {
		a, errA := os.ReadFile(filepath.Join(whole, name))
		b, errB := os.ReadFile(filepath.Join(out, name))
		if err := errors.Join(errA, errB); err != nil || string(a) != string(b) {
			t.Errorf("%s of the resumed run differs (%v)", name, err)
		}
	}
	if _, err := Run(t.Context(), open(t, model), seqs, out, o); err == nil || !strings.Contains(err.Error(), "holds a model already") {
		t.Errorf("over a model: %v", err)
	}
}

// TestResumeOther: a run is not gone on with when the model's weights have been written anew.
func TestResumeOther(t *testing.T) {
	o := Options{Method: RTN, Grid: Grid{4, 32, true}}
	model, out := small(t), filepath.Join(t.TempDir(), "out")
	dir := open(t, model)
	seqs := someTokens(dir, 5, 24)
	ctx, stop := context.WithCancel(t.Context())
	first := o
	first.Progress = func(Progress) { stop() }
	if _, err := Run(ctx, dir, seqs, out, first); !errors.Is(err, context.Canceled) {
		t.Fatalf("the first run ended with %v", err)
	}
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(filepath.Join(model, "model.safetensors"), later, later); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), open(t, model), seqs, out, o); err == nil || !strings.Contains(err.Error(), "begun with other settings") {
		t.Errorf("another model of the same name: %v", err)
	}
}

// TestDamagedState: whatever a block's file holds, it is read as it was written or refused with its name.
func TestDamagedState(t *testing.T) {
	g := Grid{4, 32, true}
	s := &state{dir: t.TempDir()}
	defer s.close()
	u32 := func(x ...uint32) (data []byte) {
		for _, v := range x {
			data = binary.LittleEndian.AppendUint32(data, v)
		}
		return data
	}
	codes, steps := make([]byte, 2*64), u32(1, 1, 1, 1)
	for i, c := range []struct {
		name           string
		codes, zeros   []byte
		dtype          safetensors.DType
		order          []byte
		scales, floats []byte
		want           string
	}{
		{"whole", codes, make([]byte, 4), "F32", make([]byte, 4*64), steps, u32(1, 2), ""},
		{"codes beyond the grid", append([]byte{16}, codes[1:]...), make([]byte, 4), "F32", nil, steps, u32(1, 2), "no whole tensor m"},
		{"zero points beyond the grid", codes, []byte{0, 0, 0, 16}, "F32", nil, steps, u32(1, 2), "no whole tensor m"},
		{"few zero points", codes, make([]byte, 3), "F32", nil, steps, u32(1, 2), "no whole tensor m"},
		{"few scales", codes, make([]byte, 4), "F32", nil, u32(1), u32(1, 2), "no whole tensor m"},
		{"scales of another dtype", codes, make([]byte, 4), "I32", nil, steps, u32(1, 2), "no whole tensor m"},
		{"an order that is cut short", codes, make([]byte, 4), "F32", make([]byte, 4), steps, u32(1, 2), "no whole tensor m"},
		{"an order beyond the groups", codes, make([]byte, 4), "F32", append(u32(2), make([]byte, 4*63)...), steps, u32(1, 2), "no whole tensor m"},
		{"no floats", codes, make([]byte, 4), "F32", nil, steps, nil, "no tensor f"},
	} {
		t.Run(c.name, func(t *testing.T) {
			list := []safetensors.Output{
				output("m.codes", "U8", []int{2, 64}, c.codes), output("m.scales", string(c.dtype), []int{len(c.scales) / 4}, c.scales), output("m.zeros", "U8", []int{len(c.zeros)}, c.zeros),
			}
			if c.order != nil {
				list = append(list, output("m.order", "I32", []int{len(c.order) / 4}, c.order))
			}
			if c.floats != nil {
				list = append(list, output("f.floats", "F32", []int{1, 2}, c.floats))
			}
			meta := map[string]string{"kept": `{"matrices": ["m"], "floats": ["f"]}`}
			if err := weights.WriteFile(s.blockFile(i), func(w io.Writer) error { return safetensors.Write(w, meta, list) }); err != nil {
				t.Fatal(err)
			}
			_, matrices, _, ok, err := s.load(i, g)
			if c.want == "" {
				if err != nil || !ok || len(matrices["m"].numbers()) != 2*64 {
					t.Error(ok, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), fmt.Sprintf("block-%03d.safetensors", i)) {
				t.Errorf("%v; it should say %q", err, c.want)
			}
		})
	}
}
