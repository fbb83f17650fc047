package packed

import (
	"math"
	"math/bits"

	"github.com/ridge-llm/ridge/quant"
)

// What puts a row's part of a unit in row g of a half, a function for each format. The half was zeros.

// blocks gives the blocks, of the given bytes, of a unit of a row in a format whose blocks have 32 numbers.
func blocks(row []byte, unit, bytes int) []byte {
	from := min(unit*(columns/32)*bytes, len(row))
	return row[from:min(from+columns/32*bytes, len(row))]
}

func packQ4_0(to *line, row []byte, unit int) {
	for i, b := 0, blocks(row, unit, 18); len(b) > 0; i, b = i+1, b[18:] {
		order.PutUint16(to.scales[2*i:], order.Uint16(b))
		to.putU4(i, order.Uint64(b[2:]), order.Uint64(b[10:]))
	}
}

func packINT4(to *line, row []byte, unit int) {
	const bytes = 66
	if b := row[min(unit*bytes, len(row)):]; len(b) > 0 {
		order.PutUint16(to.scales, order.Uint16(b))
		for i := range 4 {
			to.putU4(i, order.Uint64(b[2+16*i:]), order.Uint64(b[10+16*i:]))
		}
	}
}

// packQ4_1 stores the middle of a block's range, code 8, instead of its floor: it is small, so that little is lost when it is rounded.
func packQ4_1(to *line, row []byte, unit int) {
	for i, b := 0, blocks(row, unit, 20); len(b) > 0; i, b = i+1, b[20:] {
		scale, floor := quant.F16ToF32(order.Uint16(b)), quant.F16ToF32(order.Uint16(b[2:]))
		order.PutUint16(to.scales[2*i:], order.Uint16(b))
		putHalf(to.scales[8+2*i:], floor+8*scale)
		to.putU4(i, order.Uint64(b[4:]), order.Uint64(b[12:]))
	}
}

// packUINT4 stores the number of code 8 likewise, d·(8 − z).
func packUINT4(to *line, row []byte, unit int) {
	for i, b := 0, blocks(row, unit, 20); len(b) > 0; i, b = i+1, b[20:] {
		scale, zero := quant.F16ToF32(order.Uint16(b)), quant.F16ToF32(order.Uint16(b[2:]))
		order.PutUint16(to.scales[2*i:], order.Uint16(b))
		putHalf(to.scales[8+2*i:], scale*(8-zero))
		to.putU4(i, order.Uint64(b[4:]), order.Uint64(b[12:]))
	}
}

// packNVFP4Row multiplies out both scales. Two blocks of 16 make one of 32 columns, whose column j lies beside j+16, not j+8.
func packNVFP4Row(to *line, row []byte, unit int) {
	const bytes = 9
	d := math.Float32frombits(order.Uint32(row[len(row)-4:]))
	row = row[:len(row)-4]
	from := min(unit*columns/16*bytes, len(row))
	for i, b := 0, row[from:min(from+columns/16*bytes, len(row))]; len(b) > 0; i++ {
		first := order.Uint64(b[1:])
		putHalf(to.scales[4*i:], quant.E4M3ToF32(b[0])*d)
		second := uint64(0)
		if b = b[bytes:]; len(b) > 0 {
			second = order.Uint64(b[1:])
			putHalf(to.scales[4*i+2:], quant.E4M3ToF32(b[0])*d)
			b = b[bytes:]
		}
		to.putU4(i, first&lowHalves|second&lowHalves<<4, first>>4&lowHalves|second&^lowHalves)
	}
}

// packCodes takes the blocks of formats that have quant.GroupedCodes apart to bytes, with scales of 32 columns, which are those of 16 alike, or of 16.
// All of a block's numbers are made for each unit of it.
func packCodes(to *line, row []byte, unit int) {
	f := to.format
	block, size := f.Block(), f.BlockBytes()
	every := 16 / len(to.scales) // of the scales of 16
	var codes [256]int8
	var scales [256 / 16]float32
	for first := unit * columns; first < (unit+1)*columns && first/block*size < len(row); first += block {
		quant.GroupedCodes(f, codes[:block], scales[:block/16], row[first/block*size:][:size])
		from, n := first%block, min(block-first%block, columns)
		for i := 0; i < n/16; i += every {
			putHalf(to.scales[2*((first%columns)/16+i)/every:], scales[from/16+i])
		}
		for i := range n / 32 {
			c := codes[from+32*i:][:32]
			word := func(at int) (w uint64) {
				for j := range 8 {
					w |= uint64(byte(c[at+j])+128) << (8 * j)
				}
				return w
			}
			to.putU8((first%columns)/32+i, word(0), word(8), word(16), word(24))
		}
	}
}

// packFP8Block stores 2^8 of the scale, see E4M3 of formats.h.
func packFP8Block(to *line, row []byte, unit int) {
	const bytes = 132
	b := row[min(unit*bytes, len(row)):]
	if len(b) == 0 {
		return
	}
	putHalf(to.scales, 256*math.Float32frombits(order.Uint32(b)))
	for i := range columns / 32 {
		c := b[4+32*i:]
		to.putU8(i, order.Uint64(c), order.Uint64(c[8:]), order.Uint64(c[16:]), order.Uint64(c[24:]))
	}
}

// packBNB4 rounds the largest magnitude of a block to half precision, for two blocks of 32.
func packBNB4(to *line, row []byte, unit int) {
	const bytes = 36
	from := min(unit*columns/64*bytes, len(row))
	for i, b := 0, row[from:min(from+columns/64*bytes, len(row))]; len(b) > 0; i, b = i+2, b[bytes:] {
		for half := range 2 {
			putHalf(to.scales[2*(i+half):], math.Float32frombits(order.Uint32(b)))
			to.putU4(i+half, order.Uint64(b[4+16*half:]), order.Uint64(b[12+16*half:]))
		}
	}
}

// packQ8_0 adds 128 to the signed codes.
func packQ8_0(to *line, row []byte, unit int) {
	const add = 0x8080808080808080
	for i, b := 0, blocks(row, unit, 34); len(b) > 0; i, b = i+1, b[34:] {
		order.PutUint16(to.scales[2*i:], order.Uint16(b))
		to.putU8(i, order.Uint64(b[2:])^add, order.Uint64(b[10:])^add, order.Uint64(b[18:])^add, order.Uint64(b[26:])^add)
	}
}

// packMXFP4 writes the scale 2^(e-127) as bf16; the least is not a normal number there.
func packMXFP4(to *line, row []byte, unit int) {
	for i, b := 0, blocks(row, unit, 17); len(b) > 0; i, b = i+1, b[17:] {
		scale := uint16(b[0]) << 7
		if b[0] == 0 {
			scale = 1 << 6
		}
		order.PutUint16(to.scales[2*i:], scale)
		to.putU4(i, order.Uint64(b[1:]), order.Uint64(b[9:]))
	}
}

// putBits is putU4 of 32 bytes that have a code each, up bits up.
func (l *line) putBits(block int, b []byte, up int) {
	fold := func(low, high []byte) uint64 {
		return order.Uint64(low)>>(up&7)&lowHalves | order.Uint64(high)>>(up&7)&lowHalves<<4
	}
	b = b[:32]
	l.putU4(block, fold(b, b[16:]), fold(b[8:], b[24:]))
}

// packQ4_K multiplies out the scales and minima of six bits; scales and middles are rounded to half precision, by at most one part in 2048.
func packQ4_K(to *line, row []byte, unit int) {
	const bytes = 144
	b := row[unit/2*bytes:][:bytes]
	d, floor, packed := quant.F16ToF32(order.Uint16(b)), quant.F16ToF32(order.Uint16(b[2:])), b[4:16]
	for i := range 4 {
		scale, minimum := packed[i]&63, packed[i+4]&63
		if unit%2 == 1 {
			scale, minimum = packed[i+8]&15|packed[i]>>6<<4, packed[i+8]>>4|packed[i+4]>>6<<4
		}
		s := d * float32(scale)
		putHalf(to.scales[2*i:], s)
		putHalf(to.scales[8+2*i:], 8*s-floor*float32(minimum))
		to.putBits(i, b[16+64*(unit%2)+i/2*32:], i%2*4)
	}
}

// packQ6_K multiplies scales out likewise.
func packQ6_K(to *line, row []byte, unit int) {
	const bytes = 210
	b, h := row[unit/2*bytes:][:bytes], unit%2
	d := quant.F16ToF32(order.Uint16(b[208:]))
	for i := range 8 {
		putHalf(to.scales[2*i:], d*float32(int8(b[192+8*h+i])))
	}
	for i := range 4 {
		to.putBits(i, b[64*h+i%2*32:], i/2*4)
	}
	two := b[128+32*h:][:32]
	high := func(block int) uint64 {
		up := 2 * block & 7
		return order.Uint64(two)>>up&lowTwos | order.Uint64(two[8:])>>up&lowTwos<<2 | order.Uint64(two[16:])>>up&lowTwos<<4 | order.Uint64(two[24:])>>up&lowTwos<<6
	}
	to.putU2(0, high(0), high(1))
	to.putU2(2, high(2), high(3))
}

// putHalf writes a number in half precision; what is too large becomes the largest number.
func putHalf(to []byte, v float32) { order.PutUint16(to, quant.F32ToF16(max(min(v, 65504), -65504))) }

// noPlaces are the places of two fours in which nothing is: of numbers 0 and 1 each, as equal places have no meaning.
const noPlaces = 0x44

func fill(b []byte, v byte) {
	for i := range b {
		b[i] = v
	}
}

// places gives the places of the two numbers that a mask of four bits has: the first's in the low two bits. Masks with more or fewer are none of a
// file's that has been checked; they get places that hardware takes.
var places = func() (p [16]uint16) {
	for mask := range p {
		first := min(bits.TrailingZeros8(uint8(mask)), 2)
		second := bits.TrailingZeros8(uint8(mask) &^ (2<<first - 1))
		p[mask] = uint16(first | min(max(second, first+1), 3)<<2)
	}
	return p
}()

// packSparse24 stores numbers in bf16, which those in f16 are rounded to.
func packSparse24(to *line, row []byte, unit int) {
	const block, bytes = 64, 72
	from := min(unit*columns/block*bytes, len(row))
	for i, b := 0, row[from:min(from+columns/block*bytes, len(row))]; len(b) > 0; i, b = i+2, b[bytes:] {
		for half := range 2 {
			mask, values, at := order.Uint32(b[4*half:]), b[8+32*half:][:32], to.half[(i+half)/2*512+64*to.g+half*8:][:56]
			for t := range 4 {
				first, second := order.Uint32(values[4*t:]), order.Uint32(values[16+4*t:])
				if to.format == quant.F16_2_4 {
					first, second = halvesToBF16(first), halvesToBF16(second)
				}
				order.PutUint32(at[16*t:], first)
				order.PutUint32(at[16*t+4:], second)
			}
			for k := range 2 {
				m := mask >> (16 * k)
				order.PutUint16(to.scales[8*k+2*(i+half):], places[m&15]|places[m>>4&15]<<4|places[m>>8&15]<<8|places[m>>12&15]<<12)
			}
		}
	}
}

func halvesToBF16(two uint32) uint32 {
	number := func(half uint16) uint32 { return uint32(quant.F32ToBF16(quant.F16ToF32(half))) }
	return number(uint16(two)) | number(uint16(two>>16))<<16
}
