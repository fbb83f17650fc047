package recipe

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/ridge-llm/ridge/quant"
)

// BNB4 is a matrix as bitsandbytes stores NF4 and FP4: Name u8 [numbers/2, 1], the first of two numbers in the high half of a byte, and beside it,
// behind its name, .absmax, the largest magnitude of each block, .quant_map f32 [16], the codebook, and .quant_state.bitsandbytes__nf4, JSON.
// Where .absmax is u8 it was quantised in turn (double quantisation): of .nested_quant_map, in blocks that .nested_absmax scales, plus an offset.
type BNB4 struct{ Name string }

func (r BNB4) String() string { return fmt.Sprintf("bnb4(%s)", r.Name) }

// bnbState is what quant_state says.
type bnbState struct {
	Type        string  `json:"quant_type"`
	Block       int     `json:"blocksize"`
	Shape       []int   `json:"shape"`
	NestedBlock int     `json:"nested_blocksize"`
	Offset      float32 `json:"nested_offset"`
}

type bnb4 struct {
	Shape
	codes  []byte
	block  int // numbers under one largest magnitude
	absmax func(i int) float32
}

func (r BNB4) open(files Tensors) (source, error) {
	codes, err := raw(files, r.Name, "U8")
	if err != nil {
		return nil, err
	}
	s, err := r.state(files)
	if err != nil {
		return nil, err
	}
	m := &bnb4{Shape: Shape{quant.NF4, s.Shape[0], s.Shape[1]}, codes: codes.Data, block: s.Block}
	if s.Type == "fp4" {
		m.Format = quant.FP4
	}
	block := m.Format.Block()
	switch {
	case len(codes.Data)*2 != m.Rows*m.Cols:
		return nil, fmt.Errorf("tensor %s has %d bytes, and a matrix of %d × %d takes %d", r.Name, len(codes.Data), m.Rows, m.Cols, m.Rows*m.Cols/2)
	case s.Block < block || s.Block%block != 0 || m.Cols%s.Block != 0 && s.Block%m.Cols != 0 || m.Cols%block != 0:
		return nil, fmt.Errorf("tensor %s has rows of %d numbers in blocks of %d; rows of whole blocks, of a multiple of %d, are supported", r.Name, m.Cols, s.Block, block)
	}
	if err := r.checkCodebook(files, m.Format); err != nil {
		return nil, err
	}
	m.absmax, err = r.absmax(files, s, (m.Rows*m.Cols+s.Block-1)/s.Block)
	return m, err
}

// state reads quant_state.
func (r BNB4) state(files Tensors) (s bnbState, err error) {
	for _, kind := range []string{"nf4", "fp4"} {
		name := r.Name + ".quant_state.bitsandbytes__" + kind
		t, missing := raw(files, name, "U8")
		if missing != nil {
			continue
		}
		if err := json.Unmarshal(t.Data, &s); err != nil {
			return s, fmt.Errorf("tensor %s is not JSON: %w", name, err)
		}
		if len(s.Shape) != 2 || s.Shape[0] < 1 || s.Shape[1] < 1 || s.Type != kind {
			return s, fmt.Errorf("tensor %s says type %q and shape %d, and a matrix in %s is wanted", name, s.Type, s.Shape, kind)
		}
		return s, nil
	}
	return s, fmt.Errorf("the file has no tensor %s.quant_state.bitsandbytes__nf4", r.Name)
}

// checkCodebook refuses another codebook than the format's.
func (r BNB4) checkCodebook(files Tensors, f quant.Format) error {
	t, err := raw(files, r.Name+".quant_map", "F32")
	if err != nil {
		return err
	}
	g := grid{dtype: t.DType, data: t.Data}
	for i, want := range f.Descriptor().Codebook {
		if g.count() != 16 || math.Abs(float64(g.number(i)-want)) > 1e-6 {
			return fmt.Errorf("tensor %s.quant_map is not the codebook of %s", r.Name, f)
		}
	}
	return nil
}

// absmax gives the largest magnitude of each of n blocks.
func (r BNB4) absmax(files Tensors, s bnbState, n int) (func(i int) float32, error) {
	name := r.Name + ".absmax"
	t, err := raw(files, name, "F32", "U8")
	if err != nil {
		return nil, err
	}
	if t.DType == "F32" {
		g := grid{dtype: t.DType, data: t.Data}
		if g.count() != n {
			return nil, fmt.Errorf("tensor %s has %d numbers, and there are %d blocks", name, g.count(), n)
		}
		return g.number, checkFinite(&g, name)
	}
	nested, err := raw(files, r.Name+".nested_absmax", "F32")
	if err != nil {
		return nil, err
	}
	codebook, err := raw(files, r.Name+".nested_quant_map", "F32")
	if err != nil {
		return nil, err
	}
	scales, values := grid{dtype: "F32", data: nested.Data}, grid{dtype: "F32", data: codebook.Data}
	if s.NestedBlock < 1 || len(t.Data) != n || values.count() != 256 || scales.count() != (n+s.NestedBlock-1)/s.NestedBlock {
		return nil, fmt.Errorf("tensors %s, %s.nested_absmax and .nested_quant_map have %d, %d and %d numbers, which do not fit %d blocks in blocks of %d",
			name, strings.TrimSuffix(name, ".absmax"), len(t.Data), scales.count(), values.count(), n, s.NestedBlock)
	}
	return func(i int) float32 {
		return float32(values.number(int(t.Data[i]))*scales.number(i/s.NestedBlock)) + s.Offset
	}, checkFinite(&scales, r.Name+".nested_absmax")
}

// checkFinite refuses NaN and infinities; a block of zeros has the magnitude 0.
func checkFinite(g *grid, name string) error {
	for i := range g.count() {
		if v := g.number(i); v-v != 0 {
			return fmt.Errorf("number %d of tensor %s is %v, and finite numbers are wanted; the file is damaged, get it again", i, name, v)
		}
	}
	return nil
}

func (m *bnb4) shape() Shape { return m.Shape }

func (*bnb4) window(int, int) []byte { return nil }

func (m *bnb4) read(dst []byte, from, to int) {
	block := m.Format.Block()
	for i := from * m.Cols; i < to*m.Cols; i += block {
		putF32(dst, m.absmax(i/m.block))
		for part := range block / 32 {
			codes, out := (*[16]byte)(m.codes[(i+32*part)/2:]), (*[16]byte)(dst[4+16*part:])
			for j := range 8 { // numbers 2j and 2j+1 meet those 16 further on
				first, second := codes[j], codes[j+8]
				out[2*j] = first>>4 | second&0xf0
				out[2*j+1] = first&15 | second<<4
			}
		}
		dst = dst[m.Format.BlockBytes():]
	}
}
