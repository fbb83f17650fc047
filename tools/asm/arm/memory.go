package arm

import "fmt"

// address is a base register and an offset as objdump prints them.
func address(base R, offset int) string {
	if offset == 0 {
		return fmt.Sprintf("[x%d]", base)
	}
	return fmt.Sprintf("[x%d, #%d]", base, offset)
}

// access loads or stores a register of 4, 8 or 16 bytes, offset bytes from base: unsigned and scaled where that fits, and
// otherwise signed within ±256.
func (a *Asm) access(name string, scaled, unscaled uint32, size int, letter string, base R, offset int, v V) {
	code := scaled | uint32(offset/size)<<10
	if offset < 0 || offset%size != 0 {
		name = name[:2] + "u" + name[2:]
		code = unscaled | uint32(offset&0x1ff)<<12
	}
	a.word(code|uint32(base)<<5|uint32(v), "%s %s%d, %s", name, letter, v, address(base, offset))
}

// LoadQ loads 16 bytes.
func (a *Asm) LoadQ(base R, offset int, v V) {
	a.access("ldr", 0x3dc00000, 0x3cc00000, 16, "q", base, offset, v)
}

// LoadD loads 8 bytes and clears the rest.
func (a *Asm) LoadD(base R, offset int, v V) {
	a.access("ldr", 0xfd400000, 0xfc400000, 8, "d", base, offset, v)
}

// LoadS loads 4 bytes and clears the rest.
func (a *Asm) LoadS(base R, offset int, v V) {
	a.access("ldr", 0xbd400000, 0xbc400000, 4, "s", base, offset, v)
}

// StoreQ stores 16 bytes.
func (a *Asm) StoreQ(v V, base R, offset int) {
	a.access("str", 0x3d800000, 0x3c800000, 16, "q", base, offset, v)
}

// StoreD stores 8 bytes.
func (a *Asm) StoreD(v V, base R, offset int) {
	a.access("str", 0xfd000000, 0xfc000000, 8, "d", base, offset, v)
}

// StoreS stores 4 bytes.
func (a *Asm) StoreS(v V, base R, offset int) {
	a.access("str", 0xbd000000, 0xbc000000, 4, "s", base, offset, v)
}

// LoadPair loads 32 bytes.
func (a *Asm) LoadPair(base R, offset int, v, w V) {
	a.word(0xad400000|uint32(offset/16&0x7f)<<15|uint32(w)<<10|uint32(base)<<5|uint32(v), "ldp q%d, q%d, %s", v, w, address(base, offset))
}

// StorePair stores 32 bytes.
func (a *Asm) StorePair(v, w V, base R, offset int) {
	a.word(0xad000000|uint32(offset/16&0x7f)<<15|uint32(w)<<10|uint32(base)<<5|uint32(v), "stp q%d, q%d, %s", v, w, address(base, offset))
}

// LoadRepeat loads 4 bytes into every lane.
func (a *Asm) LoadRepeat(base R, v V) {
	a.word(0x4d40c800|uint32(base)<<5|uint32(v), "ld1r {v%d.4s}, [x%d]", v, base)
}

// LoadTwo loads 32 bytes, de-interleaving words to v and the register after it.
func (a *Asm) LoadTwo(base R, v V) {
	a.word(0x4c408800|uint32(base)<<5|uint32(v), "ld2 {v%d.4s, v%d.4s}, [x%d]", v, v+1, base)
}

// StoreTwo stores the words of v and the register after it, interleaved.
func (a *Asm) StoreTwo(v V, base R) {
	a.word(0x4c008800|uint32(base)<<5|uint32(v), "st2 {v%d.4s, v%d.4s}, [x%d]", v, v+1, base)
}

// PrefetchW prefetches the cache line at base for writing.
func (a *Asm) PrefetchW(base R) {
	a.word(0xf9800010|uint32(base)<<5, "prfm pstl1keep, [x%d]", base)
}

// Prefetch prefetches the cache line at base + index.
func (a *Asm) Prefetch(base, index R) {
	a.word(0xf8a06800|uint32(index)<<16|uint32(base)<<5, "prfm pldl1keep, [x%d, x%d]", base, index)
}
