package quantize

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"

	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights/safetensors"
)

// sparse reports whether a tensor of the file has become a 2:4 matrix of floats.
func (q *job) sparse(name string) bool {
	return q.o.Prunes() && !q.o.usesGrid() && q.o.Of4 != 0 && q.rounded[name]
}

// sparseOutputs is a 2:4 matrix of floats as compressed-tensors' sparse-24-bitmask has it: its shape, the two numbers of each four that are stored,
// and a mask with a bit for each number, the lowest first.
func sparseOutputs(base string, t quant.Tensor) ([]safetensors.Output, error) {
	if t.Cols%8 != 0 {
		return nil, fmt.Errorf("quantize: tensor %s.weight has rows of %d numbers; sparse-24-bitmask stores rows of a multiple of 8", base, t.Cols)
	}
	size := t.Format.BlockBytes()
	row := make([]float32, t.Cols)
	var values []byte
	masks := make([]byte, t.Rows*t.Cols/8)
	for r := range t.Rows {
		data := t.Row(r)
		quant.Decode(t.Format, row, data)
		for c := 0; c < t.Cols; c += 4 {
			mask := keptOf(row[c : c+4])
			if bits.OnesCount8(mask) != 2 {
				return nil, fmt.Errorf("quantize: row %d of tensor %s.weight has more than two numbers in four from %d on", r, base, c)
			}
			at := r*t.Cols + c
			masks[at/8] |= mask << (at % 8)
			for ; mask != 0; mask &= mask - 1 {
				values = append(values, data[(c+bits.TrailingZeros8(mask))*size:][:size]...)
			}
		}
	}
	shape := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(t.Rows)), uint64(t.Cols))
	return []safetensors.Output{
		output(base+".compressed", t.Format.Descriptor().DType, []int{t.Rows, t.Cols / 2}, values),
		output(base+".bitmask", "U8", []int{t.Rows, t.Cols / 8}, masks),
		output(base+".shape", "I64", []int{2}, shape),
	}, nil
}

// keptOf is the mask of the numbers of four that are not zero, and of the first zeros where these are less than two.
func keptOf(four []float32) (mask uint8) {
	for i, v := range four {
		if v != 0 {
			mask |= 1 << i
		}
	}
	for bits.OnesCount8(mask) < 2 {
		mask |= mask + 1
	}
	return mask
}

// sparseFormats are the 2:4 formats of GGUF by that of their numbers.
var sparseFormats = map[quant.Format]quant.Format{quant.BF16: quant.BF16_2_4, quant.F16: quant.F16_2_4}

// inBlocks is a 2:4 matrix of floats in GGUF's format, where there is one for its numbers and its rows divide into blocks.
func inBlocks(t quant.Tensor) (quant.Tensor, error) {
	f, ok := sparseFormats[t.Format]
	if !ok || t.Cols%f.Block() != 0 {
		return t, nil
	}
	return t.As(f)
}

// sparseConfig is the quantization_config of a model with 2:4 matrices of floats. plain are modules with matrices that are not sparse.
func sparseConfig(plain []string) map[string]any {
	ignore := append([]string{}, plain...)
	if !slices.Contains(ignore, "lm_head") {
		ignore = append(ignore, "lm_head")
	}
	return map[string]any{
		"quant_method": "compressed-tensors", "format": "dense", "quantization_status": "compressed", "config_groups": map[string]any{}, "ignore": []string{},
		"sparsity_config": map[string]any{
			"format": "sparse-24-bitmask", "sparsity_structure": "2:4", "global_sparsity": 0.5, "targets": []string{"Linear"}, "ignore": ignore,
			"registry_requires_subclass": false,
		},
	}
}
