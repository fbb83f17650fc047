package ridge_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/internal/builtin"
	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights/gguf"
)

// simFaults are what goes wrong on a simulated device.
type simFaults struct {
	run, panics, lost, slow float64 // chances of a step
	alloc                   int     // the allocation that fails, counted from 1; 0: none
}

// fails reports whether steps may fail. An engine gives up when several do, one after another.
func (f *simFaults) fails() bool { return f.run > 0 || f.panics > 0 || f.lost > 0 }

var errSim = errors.New("injected failure")

// simDevice is the CPU with faults. It has none of the abilities beyond backend.Device, so that each step passes through it.
type simDevice struct {
	backend.Device
	rng    *rand.Rand
	faults *simFaults
	allocs int
	lost   bool
}

// Alloc implements backend.Device.
func (d *simDevice) Alloc(n int64, what string) (backend.Buffer, error) {
	if d.allocs++; d.allocs == d.faults.alloc {
		return backend.Buffer{}, fmt.Errorf("%w: %d bytes for %s", errSim, n, what)
	}
	return d.Device.Alloc(n, what)
}

// Run implements backend.Device.
func (d *simDevice) Run(launches []backend.Launch, b *backend.Batch) error {
	took := time.Duration(1+d.rng.IntN(5)) * time.Millisecond
	if d.rng.Float64() < d.faults.slow {
		took = time.Duration(d.rng.IntN(20)) * time.Second
	}
	time.Sleep(took)
	if d.lost {
		return fmt.Errorf("%w: %w", errSim, backend.ErrLost)
	}
	lost, panics, fails := d.rng.Float64() < d.faults.lost, d.rng.Float64() < d.faults.panics, d.rng.Float64() < d.faults.run
	if !lost && !panics && !fails {
		return d.Device.Run(launches, b)
	}
	if err := d.Device.Run(launches[:d.rng.IntN(len(launches)+1)], b); err != nil { // at any launch: those before it have run
		return err
	}
	switch {
	case lost:
		d.lost = true
		return fmt.Errorf("%w: %w", errSim, backend.ErrLost)
	case panics:
		panic("injected panic")
	}
	return errSim
}

// tinyModel is a GGUF file of a model with the built-in one's vocabulary and template, of one layer with random weights: a step takes next to no time,
// and its answers depend on all of the prompt.
var tinyModel = sync.OnceValues(func() ([]byte, error) {
	from, err := gguf.FromBytes("demo", builtin.GGUF())
	if err != nil {
		return nil, err
	}
	defer from.Close()
	const width, heads, ffn, context = 32, 2, 64, 256
	meta := map[string]any{}
	for k, v := range from.Metadata {
		meta[k] = v
	}
	for k, v := range map[string]uint32{"block_count": 1, "embedding_length": width, "feed_forward_length": ffn, "attention.head_count": heads, "attention.head_count_kv": 1,
		"context_length": context, "attention.key_length": width / heads, "attention.value_length": width / heads, "rope.dimension_count": width / heads} {
		if _, ok := meta["llama."+k]; ok {
			meta["llama."+k] = v
		}
	}
	words := len(from.Metadata["tokenizer.ggml.tokens"].([]string))
	rng := rand.New(rand.NewPCG(1, 2))
	var tensors []gguf.Output
	add := func(name string, spread float64, shape ...int) {
		n := 1
		for _, d := range shape {
			n *= d
		}
		var b []byte
		for range n {
			x := 1.0
			if spread > 0 {
				x = spread * rng.NormFloat64()
			}
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(x)))
		}
		tensors = append(tensors, gguf.Output{Name: name, Format: quant.F32, Shape: shape, Data: func(w io.Writer) error { _, err := w.Write(b); return err }})
	}
	add("token_embd.weight", 1, words, width)
	add("output.weight", 1, words, width)
	add("output_norm.weight", 0, width)
	add("blk.0.attn_norm.weight", 0, width)
	add("blk.0.ffn_norm.weight", 0, width)
	add("blk.0.attn_q.weight", 0.3, width, width)
	add("blk.0.attn_k.weight", 0.3, width/heads, width)
	add("blk.0.attn_v.weight", 0.3, width/heads, width)
	add("blk.0.attn_output.weight", 0.3, width, width)
	add("blk.0.ffn_gate.weight", 0.3, ffn, width)
	add("blk.0.ffn_up.weight", 0.3, ffn, width)
	add("blk.0.ffn_down.weight", 0.3, width, ffn)
	var file bytes.Buffer
	if err := gguf.Write(&file, slices.Clone(from.Keys), meta, tensors); err != nil {
		return nil, err
	}
	return file.Bytes(), nil
})

// tiny is the path of tinyModel.
func tiny(t *testing.T) string {
	t.Helper()
	data, err := tinyModel()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "tiny.gguf")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
