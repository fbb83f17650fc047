// Package quant knows number formats: how many numbers a block holds, how its bytes are laid out, how to decode
// and encode them, and how far a round trip may be off. One file per format, which registers all there is to say of it. The layouts are
// those of GGUF (github.com/ggml-org/ggml, docs/gguf.md) and of the safetensors dtypes; all are little endian.
package quant

import "fmt"

// Format names one way of laying out numbers in bytes. The zero value is not a format. Its number is given in the format's own file; it
// is for this process alone.
type Format uint8

// Invalid is no format.
const Invalid Format = 0

// Descriptor is all there is to say of a format. What kernels a backend has for it, and in which layout they read it, is the backend's own
// table.
type Descriptor struct {
	Name       string   // as GGUF tools print it
	Block      int      // numbers in a block; 1 for plain floats
	BlockBytes int      // bytes in a block, its scales and zeros included
	RowScale   bool     // a row has one scale for all of it, an f32 behind its blocks
	FloatCodes bool     // codes stand for floats, which whole numbers of eight bits times a scale are not
	CodeGroup  int      // of blocks that GroupedCodes takes apart, how many numbers share a scale, 16 or 32; 0: it does not
	Sparsity   Sparsity // which numbers are stored; the zero value: all

	Codebook *[16]float32 // what codes of four bits stand for, times a scale; nil: they are numbers

	GGUF     *GGUFType // nil: GGUF does not have it
	DType    string    // safetensors' name of it; "": a dtype alone does not say it
	Fallback Format    // for rows that do not divide into its blocks; Invalid: F16
	Scaled   Format    // of its rows with the scale of the whole tensor, which a GGUF file may have beside it; Invalid: it has none
	TimedAs  Format    // the format whose kernels read it, and whose measured times it has; Invalid: its own

	bound    bound
	decode   func(dst []float32, src []byte)             // whole blocks; the lengths have been checked
	encode   func(dst []byte, src []float32)             // likewise, and no number is beyond the limit; nil: it can only be read
	weighted func(dst []byte, src, importance []float32) // likewise, errors counted by importances; nil: it does not matter to the format
	codes    grouped                                     // of a CodeGroup
	scale    func(dst, row []byte, scale float32)        // a row into Scaled
	put      putter                                      // blocks of whole codes as they are; nil: it cannot hold them
}

// GGUFType is what GGUF files call a format.
type GGUFType struct {
	Tensor uint32 // ggml's type of a tensor
	File   uint32 // general.file_type of a file most of whose matrices are in it
}

// descriptors has those of all formats, by their numbers. Each format's file puts its own here before main begins.
var descriptors [48]Descriptor

// register adds a format. Two of one number, or of one name, are our bug.
func register(f Format, d Descriptor) struct{} {
	for other := range descriptors {
		if o := &descriptors[other]; o.Block != 0 && (Format(other) == f || o.Name == d.Name) {
			panic(fmt.Sprintf("quant: formats %s and %s have both number %d or one name", o.Name, d.Name, f))
		}
	}
	descriptors[f] = d
	return struct{}{}
}

// Formats lists the formats that GGUF files are written in, floats first. Those that weights are only quantised to on load are not among them.
func Formats() []Format {
	return formats(func(d *Descriptor) bool { return d.GGUF != nil && d.encode != nil })
}

// ReadFormats lists those that GGUF files can be in.
func ReadFormats() []Format { return formats(func(d *Descriptor) bool { return d.GGUF != nil }) }

// GroupedFormats lists those whose blocks GroupedCodes takes apart.
func GroupedFormats() []Format { return formats(func(d *Descriptor) bool { return d.CodeGroup > 0 }) }

func formats(of func(d *Descriptor) bool) []Format {
	var all []Format
	for f := range descriptors {
		if d := &descriptors[f]; d.Block != 0 && of(d) {
			all = append(all, Format(f))
		}
	}
	return all
}

// Parse turns a name such as "Q4_0" into its Format; it is exact about case.
func Parse(name string) (Format, error) {
	for f := range descriptors {
		if descriptors[f].Name == name && name != "" {
			return Format(f), nil
		}
	}
	return Invalid, fmt.Errorf("quant: no number format is called %q", name)
}

// Descriptor is what is said of a valid format. It must not be written to.
func (f Format) Descriptor() *Descriptor { return &descriptors[f] }

// Valid reports whether f is one of the formats of this package.
func (f Format) Valid() bool { return int(f) < len(descriptors) && descriptors[f].Block != 0 }

// String is the format's name as GGUF tools print it.
func (f Format) String() string {
	if !f.Valid() {
		return fmt.Sprintf("Format(%d)", uint8(f))
	}
	return descriptors[f].Name
}

// Block is how many consecutive numbers of a row share one block; 1 for plain floats.
func (f Format) Block() int { return descriptors[f].Block }

// BlockBytes is the size of one block in bytes.
func (f Format) BlockBytes() int { return descriptors[f].BlockBytes }

// Bits is how many bits of a block one number takes, scales included.
func (f Format) Bits() float64 { return 8 * float64(f.BlockBytes()) / float64(f.Block()) }

// ScaledRows reports whether all numbers of a row share one scale: of FP8 and INT8.
func (f Format) ScaledRows() bool { return descriptors[f].RowScale }

// RowBytes is the size in bytes of a row of n numbers; n must be a multiple of Block.
func (f Format) RowBytes(n int) int64 {
	d := &descriptors[f]
	bytes := int64(n/d.Block) * int64(d.BlockBytes)
	if d.RowScale {
		bytes += 4
	}
	return bytes
}
