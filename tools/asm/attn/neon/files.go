// Package neon writes the arm64 assembly of package backend/cpu/attn, with ASIMD of the baseline and, for bytes, SDOT. A vector of the
// package's functions is eight numbers, two registers, so that two of them are a block of 16 tokens.
package neon

import "github.com/ridge-llm/ridge/tools/asm/arm"

// Files of the package.
var Files = []arm.File{
	{Name: "matmul_neon", Build: products},
	{Name: "int8_neon", Build: int8Kernels(mulls)},
	{Name: "int8_dotprod", Build: int8Kernels(dots)},
	{Name: "softmax_neon", Build: softmax},
}
