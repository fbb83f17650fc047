package backend

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// The form of a batch between processes, little-endian: lists in the order of the fields of Batch, each behind its length (u32), and single numbers (u32); of
// each table its three lists; of each adapter its seven numbers, of each row's keys their four.
const (
	maxTables    = 256 // cache groups
	adapterWords = 7
	keysBytes    = 20
)

// AppendTo appends the batch as bytes, for Decode in another process.
func (b *Batch) AppendTo(data []byte) []byte {
	for _, list := range b.lists() {
		data = appendInts(data, *list)
	}
	data = binary.LittleEndian.AppendUint32(data, uint32(len(b.Ancestors)))
	for _, x := range b.Ancestors {
		data = binary.LittleEndian.AppendUint64(data, x)
	}
	data = binary.LittleEndian.AppendUint32(data, uint32(len(b.Embeddings)))
	for _, x := range b.Embeddings {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
	}
	data = binary.LittleEndian.AppendUint32(data, uint32(len(b.Seen)))
	for _, k := range b.Seen {
		for _, x := range [3]int{k.Low, k.High, k.Base} {
			data = binary.LittleEndian.AppendUint32(data, uint32(x))
		}
		data = binary.LittleEndian.AppendUint64(data, k.Mask)
	}
	data = binary.LittleEndian.AppendUint32(data, uint32(b.SeqPages))
	data = binary.LittleEndian.AppendUint32(data, uint32(b.FutureTokens))
	data = binary.LittleEndian.AppendUint32(data, uint32(len(b.Adapters)))
	for _, a := range b.Adapters {
		for _, x := range [adapterWords]int32{a.Seq, a.Slot, a.Skip, a.Nth, int32(math.Float32bits(a.Scale)), a.Rank, a.Bytes} {
			data = binary.LittleEndian.AppendUint32(data, uint32(x))
		}
	}
	data = binary.LittleEndian.AppendUint32(data, uint32(len(b.Tables)))
	for i := range b.Tables {
		t := &b.Tables[i]
		data = appendInts(appendInts(appendInts(data, t.Slots), t.Pages), t.States)
	}
	return data
}

// lists are the fields that are lists of numbers.
func (b *Batch) lists() [9]*[]int32 {
	return [...]*[]int32{&b.Tokens, &b.Positions, &b.Segments, &b.QStart, &b.KVLen, &b.RopeLen, &b.TreeLen, &b.EmbeddingRows, &b.LogitsIndices}
}

func appendInts(data []byte, list []int32) []byte {
	data = binary.LittleEndian.AppendUint32(data, uint32(len(list)))
	for _, x := range list {
		data = binary.LittleEndian.AppendUint32(data, uint32(x))
	}
	return data
}

// Decode makes the batch what AppendTo was given; memory is kept. What the numbers mean is for Check to say.
func (b *Batch) Decode(data []byte) error {
	r := wire{data: data}
	for _, list := range b.lists() {
		*list = r.ints((*list)[:0])
	}
	b.Ancestors = b.Ancestors[:0]
	for range r.length(8) {
		b.Ancestors = append(b.Ancestors, r.uint64())
	}
	b.Embeddings = b.Embeddings[:0]
	for range r.length(4) {
		b.Embeddings = append(b.Embeddings, math.Float32frombits(r.uint32()))
	}
	b.Seen = b.Seen[:0]
	for range r.length(keysBytes) {
		b.Seen = append(b.Seen, Keys{Low: int(r.uint32()), High: int(r.uint32()), Base: int(r.uint32()), Mask: r.uint64()})
	}
	b.SeqPages, b.FutureTokens = int(r.uint32()), int(r.uint32())
	b.Adapters = b.Adapters[:0]
	for range r.length(4 * adapterWords) {
		var w [adapterWords]int32
		for i := range w {
			w[i] = int32(r.uint32())
		}
		b.Adapters = append(b.Adapters, SeqAdapter{w[0], w[1], w[2], w[3], math.Float32frombits(uint32(w[4])), w[5], w[6]})
	}
	tables := r.length(12)
	if tables > maxTables {
		return fmt.Errorf("backend: a batch with %d page tables; %d at most are possible", tables, maxTables)
	}
	for len(b.Tables) < tables {
		b.Tables = append(b.Tables, Table{})
	}
	b.Tables = b.Tables[:tables]
	for i := range b.Tables {
		t := &b.Tables[i]
		t.Slots, t.Pages, t.States = r.ints(t.Slots[:0]), r.ints(t.Pages[:0]), r.ints(t.States[:0])
	}
	return r.end()
}

// wire reads numbers until some are missing.
type wire struct {
	data []byte
	err  error
}

var errCut = errors.New("backend: the bytes of a batch end in the middle of it")

func (r *wire) uint32() uint32 {
	if len(r.data) < 4 {
		r.data, r.err = nil, errCut
		return 0
	}
	x := binary.LittleEndian.Uint32(r.data)
	r.data = r.data[4:]
	return x
}

func (r *wire) uint64() uint64 { return uint64(r.uint32()) | uint64(r.uint32())<<32 }

// length is that of a list of which so many bytes are one: no more than there are.
func (r *wire) length(each int) int {
	n := int64(r.uint32())
	if n*int64(each) > int64(len(r.data)) {
		r.data, r.err = nil, errCut
		return 0
	}
	return int(n)
}

func (r *wire) ints(list []int32) []int32 {
	for range r.length(4) {
		list = append(list, int32(r.uint32()))
	}
	return list
}

func (r *wire) end() error {
	if r.err == nil && len(r.data) > 0 {
		return fmt.Errorf("backend: %d bytes behind a batch", len(r.data))
	}
	return r.err
}
