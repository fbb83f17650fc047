package gputest

import (
	"bytes"
	"encoding/binary"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// int4HeadBytes is what a head of a group of tokens takes in a cache of I4: keys' codes and ranges, then values'.
func (s Shape) int4HeadBytes() int {
	return 20*s.KSize + 16*s.VSize + quant.Int4RangeBytes*quant.Int4Group*s.VSize/quant.Int4Run(s.VSize)
}

// int4Bytes is what so many tokens take.
func (s Shape) int4Bytes(tokens int) int {
	return tokens / quant.Int4Group * s.KVHeads * s.int4HeadBytes()
}

// StoreInt4 quantises a group of tokens, [Int4Group][KVHeads × size], into its part of a page, and leaves in k and v what they are there.
func (s Shape) StoreInt4(part []byte, k, v []float32) {
	for h := range s.KVHeads {
		head := part[h*s.int4HeadBytes():]
		scales, minima, values := head[16*s.KSize:], head[18*s.KSize:], head[20*s.KSize:]
		clear(head[:16*s.KSize])
		clear(values[:16*s.VSize])
		for d := range s.KSize {
			at := k[h*s.KSize+d:]
			r := quant.Int4RangeOf(at, quant.Int4Group, s.KVHeads*s.KSize)
			binary.LittleEndian.PutUint16(scales[2*d:], r.Scale)
			binary.LittleEndian.PutUint16(minima[2*d:], r.Min)
			for token := range quant.Int4Group {
				putCode(head, ((d/8*8+token%8)*4 + token/8), d%8, r, &at[token*s.KVHeads*s.KSize])
			}
		}
		run := quant.Int4Run(s.VSize)
		for token := range quant.Int4Group {
			row := v[(token*s.KVHeads+h)*s.VSize:][:s.VSize]
			for first := 0; first < s.VSize; first += run {
				r := quant.Int4RangeOf(row[first:], run, 1)
				range4 := values[16*s.VSize+4*((first/run*8+token%8)*4+token/8):]
				binary.LittleEndian.PutUint16(range4, r.Scale)
				binary.LittleEndian.PutUint16(range4[2:], r.Min)
				for d := first; d < first+run; d++ {
					m, g, t := d/8, d%8, token%8/2
					word := m/4*128 + (g*4+t)*min(4, s.VSize/8-m/4*4) + m%4
					putCode(values, word, token/8*2+token%2, r, &row[d])
				}
			}
		}
	}
}

// putCode puts a number's code, the i-th of a word, and leaves in x what it stands for.
func putCode(words []byte, word, i int, r quant.Int4Range, x *float32) {
	code := r.Code(*x)
	at := words[4*word:]
	binary.LittleEndian.PutUint32(at, binary.LittleEndian.Uint32(at)|uint32(code)<<(i/2*4+i%2*16))
	scale, minimum := r.Floats()
	*x = scale*float32(code) + minimum
}

// int4Cache makes a cache of I4 of a sequence's tokens and its residual cache, both of the sequence's pages alone, in the order of the text. keys and values become what
// they are in four bits, but for those of the last group, which is not whole; newest ones are as IEEE halves have them.
func (s Shape) int4Cache(keys, values []float32) (cache, newest []byte, newestKeys, newestValues []float32) {
	kLen, vLen := s.KVHeads*s.KSize, s.KVHeads*s.VSize
	length := len(keys) / kLen
	pages := (length + s.PageSize - 1) / s.PageSize
	half := Shape{KVHeads: s.KVHeads, PageSize: s.PageSize, Type: graph.F16}
	part := half.PartBytes(s.KSize)
	cache = bytes.Repeat([]byte{0xff}, pages*s.int4Bytes(s.PageSize))
	newest = bytes.Repeat([]byte{0xff}, pages*(part+half.PartBytes(s.VSize)))
	for p := range length {
		page := newest[p/s.PageSize*(part+half.PartBytes(s.VSize)):]
		half.Store(page, p%s.PageSize, s.KSize, keys[p*kLen:(p+1)*kLen])
		half.Store(page[part:], p%s.PageSize, s.VSize, values[p*vLen:(p+1)*vLen])
	}
	newestKeys, newestValues = append(newestKeys, keys...), append(newestValues, values...)
	for p := 0; p+quant.Int4Group <= length; p += quant.Int4Group {
		s.StoreInt4(cache[s.int4Bytes(p):], keys[p*kLen:(p+quant.Int4Group)*kLen], values[p*vLen:(p+quant.Int4Group)*vLen])
	}
	return cache, newest, newestKeys, newestValues
}
