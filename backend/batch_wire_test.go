package backend_test

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/ridge-llm/ridge/backend"
)

// wired is a batch with something in every field.
func wired() *backend.Batch {
	return &backend.Batch{
		Tokens: []int32{5, -1, 7}, Positions: []int32{0, 1, 2}, Segments: []int32{0, 0, 1}, QStart: []int32{0, 2, 3}, KVLen: []int32{2, 1}, RopeLen: []int32{9, 1},
		TreeLen: []int32{2, 0}, Ancestors: []uint64{1, 3 | 1<<63, 0}, Embeddings: []float32{0.5, -2}, EmbeddingRows: []int32{1}, SeqPages: 2,
		Seen:          []backend.Keys{{High: 1, Base: 1}, {Low: 1, High: 2, Base: 1, Mask: 1 | 1<<63}, {High: 1, Base: 1}},
		LogitsIndices: []int32{1, 2}, FutureTokens: 1,
		Adapters: []backend.SeqAdapter{{Seq: 1, Slot: 2, Skip: 3, Nth: 1, Scale: 0.25, Rank: 8, Bytes: 2}},
		Tables:   []backend.Table{{Slots: []int32{1, 2, 3}, Pages: []int32{4, 5, 6, 7}}, {States: []int32{1, 0}}},
	}
}

// TestBatchWire: a batch comes out as it went in, no field is left out, and what is cut anywhere or longer is an error.
func TestBatchWire(t *testing.T) {
	want := wired()
	for v, i := reflect.ValueOf(*want), 0; i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Errorf("the test's batch has no %s", v.Type().Field(i).Name)
		}
	}
	data := want.AppendTo(nil)
	got := &backend.Batch{Tokens: make([]int32, 20), Tables: make([]backend.Table, 5)}
	if err := got.Decode(data); err != nil {
		t.Fatal(err)
	}
	if again := got.AppendTo(nil); !bytes.Equal(again, data) {
		t.Errorf("%+v became %+v", want, got)
	}
	if len(got.Tables[1].Slots) > 0 || !reflect.DeepEqual(got.Adapters, want.Adapters) || !reflect.DeepEqual(got.Ancestors, want.Ancestors) {
		t.Errorf("%+v became %+v", want, got)
	}
	for n := range data {
		if err := new(backend.Batch).Decode(data[:n]); err == nil {
			t.Errorf("%d of %d bytes are a batch", n, len(data))
		}
	}
	if err := new(backend.Batch).Decode(append(data, 0)); err == nil {
		t.Error("a byte behind a batch is not noticed")
	}
}

// FuzzBatchWire: no bytes make Decode panic or take memory beyond their own size, and what it takes goes out as it came in.
func FuzzBatchWire(f *testing.F) {
	f.Add(wired().AppendTo(nil))
	f.Add([]byte{255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, data []byte) {
		var b backend.Batch
		if err := b.Decode(data); err == nil && !bytes.Equal(b.AppendTo(nil), data) {
			t.Errorf("%x is read as %+v", data, b)
		}
	})
}
