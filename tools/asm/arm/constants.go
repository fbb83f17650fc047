package arm

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
)

// Constant is a vector of 16 bytes among the file's constants: bytes from the start of them.
type Constant int

// Vector makes a constant; equal ones are one.
func (a *Asm) Vector(bytes [16]byte) Constant {
	key := string(bytes[:])
	if at, ok := a.places[key]; ok {
		return Constant(at)
	}
	a.places[key] = len(a.constants)
	a.constants = append(a.constants, bytes[:]...)
	return Constant(a.places[key])
}

// Words repeats 32 bits.
func (a *Asm) Words(v uint32) Constant {
	var b [16]byte
	for i := 0; i < len(b); i += 4 {
		binary.LittleEndian.PutUint32(b[i:], v)
	}
	return a.Vector(b)
}

// Floats repeats a float32.
func (a *Asm) Floats(v float32) Constant { return a.Words(math.Float32bits(v)) }

// Bytes repeats a byte.
func (a *Asm) Bytes(v byte) Constant { return a.Words(uint32(v) * 0x01010101) }

// Load loads a constant, by way of register 26.
func (a *Asm) Load(c Constant, v V) {
	a.pooled = true
	a.LoadQ(pool, int(c), v)
}

func (a *Asm) data() string {
	var b strings.Builder
	for i := 0; i < len(a.constants); i += 8 {
		fmt.Fprintf(&b, "\nDATA constants<>+%d(SB)/8, $0x%016x", i, binary.LittleEndian.Uint64(a.constants[i:]))
	}
	if b.Len() > 0 {
		fmt.Fprintf(&b, "\nGLOBL constants<>(SB), RODATA|NOPTR, $%d\n", len(a.constants))
	}
	return b.String()
}
