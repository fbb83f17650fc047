package convert

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/ridge-llm/ridge/quant"
)

// A random matrix is put together from pieces: runs of normally distributed numbers that were encoded beforehand. A
// piece is copied where encoding would take a hundred times as long, and the file looks like any other to a kernel.

// poolPieces is how many different pieces there are; with as many, no two rows are alike.
const poolPieces = 2048

// pool is the pieces for rows of one length in one format.
type pool struct {
	pieces []byte
	size   int // bytes of a piece
	perRow int
}

// pools keeps the pools made so far.
type pools map[poolKey]*pool

type poolKey struct {
	format quant.Format
	cols   int
}

// fill makes a tensor random: pieces chosen by its name and the row's number alone, so that the result does not depend on
// how the rows are divided over cores.
func (p pools) fill(t *tensor) error {
	switch {
	case strings.HasSuffix(t.name, ".bias"): // in F32, of experts a row each
		_, cols := t.size()
		t.rows = func(_ []byte, from, to int) []byte { return make([]byte, 4*cols*(to-from)) }
		return nil
	case strings.HasSuffix(t.name, ".ssm_a"): // in F32; a state is multiplied by exp of this times something positive, and more than 0 makes it grow without end
		_, cols := t.size()
		t.rows = func(buf []byte, from, to int) []byte {
			buf = buf[:0]
			for range cols * (to - from) {
				buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(-1))
			}
			return buf
		}
		return nil
	case len(t.shape) == 1:
		ones := make([]float32, t.shape[0])
		for i := range ones {
			ones[i] = 1
		}
		t.rows = constant(ones)
		return nil
	}
	_, cols := t.size()
	key := poolKey{t.as, cols}
	if p[key] == nil {
		made, err := newPool(key)
		if err != nil {
			return err
		}
		p[key] = made
	}
	from := p[key]
	h := fnv.New64a()
	h.Write([]byte(t.name))
	seed := h.Sum64()
	t.rows = func(buf []byte, first, last int) []byte {
		rest := buf
		for row := first; row < last; row++ {
			var r rand.PCG
			r.Seed(seed, uint64(row))
			for range from.perRow {
				at := int(r.Uint64()%poolPieces) * from.size
				rest = rest[copy(rest, from.pieces[at:at+from.size]):]
			}
		}
		return buf
	}
	return nil
}

// newPool encodes pieces for rows of cols numbers whose length is 1 on average, so that a product with one keeps the
// size of what it is multiplied with.
func newPool(key poolKey) (*pool, error) {
	length := 256
	for key.cols%length != 0 {
		length /= 2 // down to a block: those of 256 divide the row, or it would be in another format
	}
	p := &pool{size: int(key.format.RowBytes(length)), perRow: key.cols / length}
	p.pieces = make([]byte, poolPieces*p.size)
	random := rand.New(rand.NewPCG(uint64(key.format), uint64(key.cols)))
	numbers := make([]float32, length)
	sigma := 1 / math.Sqrt(float64(key.cols))
	for i := range poolPieces {
		for j := range numbers {
			numbers[j] = float32(random.NormFloat64() * sigma)
		}
		if err := quant.Encode(key.format, p.pieces[i*p.size:(i+1)*p.size], numbers); err != nil {
			return nil, err
		}
	}
	return p, nil
}
