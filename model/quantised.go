package model

import (
	"maps"
	"slices"
	"strings"

	"github.com/ridge-llm/ridge/weights/recipe"
)

// This file reads what a Hugging Face configuration says of quantised weights: which tensors are, and in which bits and groups, their names,
// dtypes and shapes say themselves, so that mixed groups and overrides of single layers need nothing more.

// methods are the quantisers whose layouts weights/recipe reads, with the forms of each; none listed: there is one.
var methods = map[string][]string{
	"gptq": nil, "gptq_v2": nil, "awq": nil, "bitsandbytes": nil, "fp8": nil, "modelopt": nil, "mxfp4": nil, "fbgemm_fp8": nil,
	"compressed-tensors": {"pack-quantized", "int-quantized", "float-quantized", "naive-quantized", "nvfp4-pack-quantized", "mxfp4-pack-quantized", "mixed-precision", "dense"},
}

// quantised reads quantization_config.
func (f *fields) quantised() (l recipe.Layout) {
	q := f.object("quantization_config")
	if q == nil {
		return l
	}
	method, _ := q["quant_method"].(string)
	forms, known := methods[method]
	if !known {
		f.fail("its weights are quantised by %q, which is not known; %s are", q["quant_method"], strings.Join(slices.Sorted(maps.Keys(methods)), ", "))
		return l
	}
	if form, _ := q["format"].(string); forms != nil && form != "" && !slices.Contains(forms, form) {
		f.fail("its weights are in the form %q of %s, which is not known; %s are", form, method, strings.Join(forms, ", "))
	}
	f.sparseForm(q)
	switch version, _ := q["checkpoint_format"].(string); {
	case method != "gptq" && method != "gptq_v2":
	case version == "gptq_v2" || method == "gptq_v2":
	case version == "" || version == "gptq":
		l.ZeroPlusOne = true
	default:
		f.fail("its weights are in the form %q of gptq, which is not known; gptq and gptq_v2 are", version)
	}
	if version, _ := q["version"].(string); method == "awq" && version != "" && !strings.EqualFold(version, "gemm") {
		f.fail("its weights are in the form %q of awq, which is not known; gemm is", version)
	}
	if size, ok := q["weight_block_size"].([]any); ok && len(size) == 2 {
		rows, _ := number(size[0])
		cols, _ := number(size[1])
		if rows < 1 || cols < 1 || rows > maxSize || cols > maxSize {
			f.fail("field weight_block_size is %v, and two sizes of blocks are wanted", size)
		}
		l.BlockRows, l.BlockCols = int(rows), int(cols)
	}
	return l
}

// sparseForm checks sparsity_config of compressed-tensors; which matrices are sparse, the names of their tensors say.
func (f *fields) sparseForm(q map[string]any) {
	s := f.part(q, "sparsity_config")
	form, ok := s["format"].(string)
	if s["format"] != nil && (!ok || form != "sparse-24-bitmask" && form != "dense") {
		f.fail("field sparsity_config has the format %v; sparse-24-bitmask and dense are supported", s["format"])
	}
}
