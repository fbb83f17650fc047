package recipe

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/ridge-llm/ridge/quant"
)

var order = binary.LittleEndian

// grid is a matrix of scales in any float dtype: the scale of row r and group g of its columns is number r·row + g·group.
type grid struct {
	name       string
	dtype      string
	data       []byte
	row, group int
}

// floatTypes are the dtypes of scales.
var floatTypes = []string{"F16", "BF16", "F32"}

// number is number i of the tensor.
func (g *grid) number(i int) float32 {
	switch g.dtype {
	case "F16":
		return quant.F16ToF32(order.Uint16(g.data[2*i:]))
	case "BF16":
		return quant.BF16ToF32(order.Uint16(g.data[2*i:]))
	default:
		return math.Float32frombits(order.Uint32(g.data[4*i:]))
	}
}

// at is the scale of a row's group.
func (g *grid) at(row, group int) float32 { return g.number(row*g.row + group*g.group) }

// count is how many numbers the tensor has.
func (g *grid) count() int {
	if g.dtype == "F32" {
		return len(g.data) / 4
	}
	return len(g.data) / 2
}

// check refuses scales that no quantiser writes.
func (g *grid) check() error {
	for i := range g.count() {
		if v := g.number(i); v == 0 || v-v != 0 {
			return fmt.Errorf("scale %d of tensor %s is %v, and a number that is neither zero nor infinite is wanted; the file is damaged, get it again", i, g.name, v)
		}
	}
	return nil
}

// bitStream is numbers of so many bits in 32-bit words, which they straddle.
type bitStream struct {
	data []byte
	bits int
}

// at is the number that begins at a bit; what lies behind the end is zero.
func (s bitStream) at(bit int) int {
	word, shift := bit/32, bit%32
	v := uint64(order.Uint32(s.data[4*word:]))
	if shift+s.bits > 32 {
		v |= uint64(order.Uint32(s.data[4*word+4:])) << 32
	}
	return int(v>>shift) & (1<<s.bits - 1)
}

// words is how many words n numbers take.
func (s bitStream) words(n int) int { return (n*s.bits + 31) / 32 }

// unpackWords writes the 32 numbers of as many words as they have bits.
func unpackWords(dst *[32]byte, words *[8]uint32, bits int) {
	mask := uint64(1)<<bits - 1
	var v uint64
	have, next := 0, 0
	for i := range dst {
		if have < bits {
			v |= uint64(words[next]) << have
			have, next = have+32, next+1
		}
		dst[i] = byte(v & mask)
		v, have = v>>bits, have-bits
	}
}
