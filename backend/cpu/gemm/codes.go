package gemm

import "encoding/binary"

// The functions of this file read the codes of 32 consecutive weights out of one block of a number format, as quant
// describes it: byte i of word j is the code of weight 4j+i. They work on four codes at a time, since packing a model
// is part of the time to its first token.

const (
	each1 = 0x01010101
	each2 = 0x03030303
	each4 = 0x0f0f0f0f
)

func word(b []byte, i int) uint32 { return binary.LittleEndian.Uint32(b[4*i:]) }

// nibbles reads 16 bytes whose low halves are weights 0–15 and whose high halves are weights 16–31.
func nibbles(b []byte, c *[8]uint32) {
	_ = b[15]
	for p := range 4 {
		w := word(b, p)
		c[p], c[p+4] = w&each4, w>>4&each4
	}
}

// fifth adds bit j of the given bits to weight j, as bit 4 of its code.
func fifth(bits uint32, c *[8]uint32) {
	for j := range c {
		// The product puts bit i of the nibble at bit 8i (and elsewhere, masked away).
		c[j] |= (bits >> (4 * j) & 15 * 0x00204081) & each1 << 4
	}
}

// plane adds bits [shift, shift+width) of 32 bytes, one for each weight, to the codes at bit `to`.
func plane(b []byte, shift int, mask uint32, to int, c *[8]uint32) {
	_ = b[31]
	for j := range c {
		c[j] |= word(b, j) >> shift & mask << to
	}
}

func codesQ8_0(b []byte, _ int, c *[8]uint32) {
	for j := range c {
		c[j] = word(b[2:], j) ^ 0x80808080
	}
}

func codesQ4_0(b []byte, _ int, c *[8]uint32)  { nibbles(b[2:], c) }
func codesQ4_1(b []byte, _ int, c *[8]uint32)  { nibbles(b[4:], c) }
func codesMXFP4(b []byte, _ int, c *[8]uint32) { nibbles(b[1:], c) }

func codesQ5_0(b []byte, _ int, c *[8]uint32) {
	nibbles(b[6:], c)
	fifth(word(b[2:], 0), c)
}

func codesQ5_1(b []byte, _ int, c *[8]uint32) {
	nibbles(b[8:], c)
	fifth(word(b[4:], 0), c)
}

func codesQ4_K(b []byte, sub int, c *[8]uint32) {
	*c = [8]uint32{}
	plane(b[16+sub/2*32:], sub%2*4, each4, 0, c)
}

func codesQ5_K(b []byte, sub int, c *[8]uint32) {
	*c = [8]uint32{}
	plane(b[48+sub/2*32:], sub%2*4, each4, 0, c)
	plane(b[16:], sub, each1, 4, c)
}

func codesQ6_K(b []byte, sub int, c *[8]uint32) {
	*c = [8]uint32{}
	half, quarter := sub/4, sub%4
	plane(b[64*half+quarter%2*32:], quarter/2*4, each4, 0, c)
	plane(b[128+32*half:], 2*quarter, each2, 4, c)
}

func codesQ3_K(b []byte, sub int, c *[8]uint32) {
	*c = [8]uint32{}
	plane(b[32+sub/4*32:], sub%4*2, each2, 0, c)
	plane(b, sub, each1, 2, c)
}

func codesQ2_K(b []byte, sub int, c *[8]uint32) {
	*c = [8]uint32{}
	plane(b[16+sub/4*32:], sub%4*2, each2, 0, c)
}

// store writes the codes of one row to a packed block. Codes of five and six bits are cut into their upper four and
// what is left, so that the upper four only need to be moved to the top of the byte.
func (f formID) store(dst []byte, row int, c *[8]uint32) {
	put := func(plane int, w uint32) { binary.LittleEndian.PutUint32(dst[plane*planeBytes+4*row:], w) }
	switch f {
	case formU8, formS8:
		for p, w := range c {
			put(p, w)
		}
	case formU3:
		putFields(put, 0, c)
		put(2, bitPlane(c, 2))
	case formU2:
		putFields(put, 0, c)
	case formU5:
		putNibbles(put, 1, c)
		put(4, bitPlane(c, 0))
	case formU6:
		putNibbles(put, 2, c)
		putFields(put, 4, c)
	default:
		putNibbles(put, 0, c)
	}
}

// putNibbles gathers four bits of every code, from bit `from` on, into planes 0 to 3.
func putNibbles(put func(int, uint32), from int, c *[8]uint32) {
	for p := range 4 {
		put(p, c[p]>>from&each4|c[p+4]>>from&each4<<4)
	}
}

// bitPlane gathers bit `from` of every code: bit j of byte i is that of weight 4j+i.
func bitPlane(c *[8]uint32, from int) (w uint32) {
	for j := range c {
		w |= c[j] >> from & each1 << j
	}
	return w
}

// putFields gathers the lowest two bits of every code into two planes: bits 2f of byte i of the first are those of
// weight 4f+i.
func putFields(put func(int, uint32), plane int, c *[8]uint32) {
	for half := range 2 {
		var w uint32
		for f := range 4 {
			w |= c[4*half+f] & each2 << (2 * f)
		}
		put(plane+half, w)
	}
}
