package ranks

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/ridge-llm/ridge/backend/sampling"
)

// Samples between processes, little-endian: how many (u32), and of each its numbers in the order of sampling.Sample, lists behind their lengths.

// appendSamples appends what is to be sampled from the rows of a step.
func appendSamples(data []byte, samples []sampling.Sample) []byte {
	u32 := func(x int) { data = binary.LittleEndian.AppendUint32(data, uint32(x)) }
	u32(len(samples))
	for i := range samples {
		s := &samples[i]
		u32(s.Row)
		u32(s.TopK)
		for _, x := range [...]float64{s.Temperature, s.TopP, s.MinP, s.TypicalP, s.U} {
			data = binary.LittleEndian.AppendUint64(data, math.Float64bits(x))
		}
		u32(len(s.Mask))
		for _, x := range s.Mask {
			u32(int(x))
		}
		u32(len(s.Edits))
		for _, e := range s.Edits {
			for _, x := range [...]int32{e.ID, int32(math.Float32bits(e.Add)), e.Seen, e.Counted} {
				u32(int(x))
			}
		}
		for _, x := range [...]float32{s.Repetition, s.Frequency, s.Presence} {
			u32(int(math.Float32bits(x)))
		}
		u32(s.Future)
		u32(s.Top)
		logprob := byte(0)
		if s.Logprob {
			logprob = 1
		}
		data = append(data, logprob)
	}
	return data
}

// sampleBytes is the least that a sample takes.
const sampleBytes = 2*4 + 5*8 + 2*4 + 3*4 + 2*4 + 1

// samples reads what is to be sampled from rows of so many logits, of which a step has so many at most.
func (r *reader) samples(list []sampling.Sample, rows, vocab int) []sampling.Sample {
	n := r.int()
	if n < 0 || n > len(r.data)/sampleBytes {
		r.data, r.err = nil, errCut
		return nil
	}
	list = list[:0]
	for i := range n {
		var s sampling.Sample
		s.Row, s.TopK = r.int(), r.int()
		for _, x := range [...]*float64{&s.Temperature, &s.TopP, &s.MinP, &s.TypicalP, &s.U} {
			if b := r.bytes(8); b != nil {
				*x = math.Float64frombits(binary.LittleEndian.Uint64(b))
			}
		}
		for _, x := range r.ints() {
			s.Mask = append(s.Mask, uint32(x))
		}
		edits := r.int()
		for k := 0; k < edits && r.err == nil; k++ {
			e := sampling.Edit{ID: int32(r.int()), Add: math.Float32frombits(uint32(r.int())), Seen: int32(r.int()), Counted: int32(r.int())}
			if e.ID < 0 || int(e.ID) >= vocab {
				r.err = fmt.Errorf("ranks: sample %d changes token %d of %d", i, e.ID, vocab)
			}
			s.Edits = append(s.Edits, e)
		}
		for _, x := range [...]*float32{&s.Repetition, &s.Frequency, &s.Presence} {
			*x = math.Float32frombits(uint32(r.int()))
		}
		s.Future, s.Top = r.int(), r.int()
		if b := r.bytes(1); b != nil {
			s.Logprob = b[0] != 0
		}
		if r.err != nil {
			return nil
		}
		if s.Row < 0 || s.Row >= rows || s.Future < -1 || s.Future >= rows || edits < 0 || len(s.Mask) > 0 && len(s.Mask) != (vocab+31)/32 || s.Top < 0 || s.Top > sampling.MaxTop {
			r.err = fmt.Errorf("ranks: sample %d is of row %d of %d, %d tokens of its mask, %d likeliest", i, s.Row, rows, 32*len(s.Mask), s.Top)
			return nil
		}
		list = append(list, s)
	}
	return list
}
