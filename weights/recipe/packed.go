package recipe

import (
	"fmt"
	"slices"
	"strings"
)

// Raw is a tensor of any dtype: its name in safetensors, its shape with the slowest dimension first, and its bytes.
type Raw struct {
	DType string
	Shape []int
	Data  []byte
}

// packedFile is a file that has tensors of bytes beside those of numbers: quantisers store a matrix as several of them.
type packedFile interface {
	Tensors
	Bytes(name string) (Raw, bool)
}

// Layout is what a checkpoint's configuration says of its quantised matrices and their tensors do not.
type Layout struct {
	// ZeroPlusOne: GPTQ's zero points are stored less 1, as all versions of its format but gptq_v2 do.
	ZeroPlusOne bool
	// BlockRows and BlockCols are the size of the blocks of an FP8 matrix that has a matrix of scales; 0: 128.
	BlockRows, BlockCols int
}

// Packed is the recipe of a matrix, or of stacked ones, that the file has quantised under a name, which ends in .weight unless the matrices
// are an architecture's own parameters; false when it has not. Which of the layouts it is, the names and dtypes of the tensors say.
func Packed(files Tensors, name string, l Layout) (Recipe, bool) {
	f, ok := files.(packedFile)
	if !ok {
		return nil, false
	}
	has := func(name string) bool { _, ok := f.Bytes(name); return ok }
	dtype := func(name string) string { t, _ := f.Bytes(name); return t.DType }
	base := strings.TrimSuffix(name, ".weight")
	switch t, _ := f.Bytes(name); {
	case has(name + "_blocks"):
		return MXFP4{Blocks: name + "_blocks", Scales: name + "_scales"}, true
	case has(base + ".bitmask"):
		return Sparse24{Base: base}, true
	case has(base + ".qweight"):
		return GPTQ{Base: base, ZeroPlusOne: l.ZeroPlusOne}, true
	case has(name+"_packed") && dtype(name+"_packed") == "I32":
		return PackedInts{Base: base}, true
	case has(name+"_packed") && has(name+"_global_scale"):
		return NVFP4{Codes: name + "_packed", Scales: name + "_scale", Global: name + "_global_scale", Divides: true}, true
	case has(name + "_packed"):
		return MXFP4Pairs{Codes: name + "_packed", Scales: name + "_scale"}, true
	case t.DType == "U8" && has(name+"_scale_2"):
		return NVFP4{Codes: name, Scales: name + "_scale", Global: name + "_scale_2"}, true
	case t.DType == "U8" && has(name+".absmax"):
		return BNB4{Name: name}, true
	case t.DType == "I8" && has(base+".SCB"):
		return Ints{Codes: name, Scales: base + ".SCB", Divisor: 127}, true
	case t.DType == "I8":
		return Ints{Codes: name, Scales: name + "_scale", Zeros: name + "_zero_point", Divisor: 1}, true
	case t.DType == "F8_E4M3" && has(name+"_scale_inv"):
		return FP8{Codes: name, Scales: name + "_scale_inv", BlockRows: l.BlockRows, BlockCols: l.BlockCols}, true
	case t.DType == "F8_E4M3":
		return FP8{Codes: name, Scales: name + "_scale", BlockRows: l.BlockRows, BlockCols: l.BlockCols}, true
	}
	return nil, false
}

// raw is a tensor of a file that has packed matrices, or an error that names what is missing.
func raw(files Tensors, name string, dtypes ...string) (Raw, error) {
	if f, ok := files.(packedFile); ok {
		if t, ok := f.Bytes(name); ok {
			if !slices.Contains(dtypes, t.DType) {
				return Raw{}, fmt.Errorf("tensor %s is in %s, and %s is wanted", name, t.DType, strings.Join(dtypes, " or "))
			}
			return t, nil
		}
	}
	return Raw{}, fmt.Errorf("the file has no tensor %s", name)
}

// rawMatrix is a raw tensor that has two dimensions.
func rawMatrix(files Tensors, name string, dtypes ...string) (Raw, error) {
	t, err := raw(files, name, dtypes...)
	if err == nil && (len(t.Shape) != 2 || t.Shape[0] < 1 || t.Shape[1] < 1) {
		err = fmt.Errorf("tensor %s has the shape %d, and a matrix is wanted", name, t.Shape)
	}
	return t, err
}
