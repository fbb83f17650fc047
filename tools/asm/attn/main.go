// Command attn writes the assembly of package backend/cpu/attn into the directory it is given.
package main

import (
	"fmt"
	"os"

	"github.com/ridge-llm/ridge/tools/asm/arm"
	"github.com/ridge-llm/ridge/tools/asm/attn/neon"
	"github.com/ridge-llm/ridge/tools/asm/emit"
)

var (
	avx512  = emit.Width{Bytes: 64, VNNI: true}
	avxVNNI = emit.Width{Bytes: 32, VNNI: true}
	avx2    = emit.Width{Bytes: 32}
)

var files = []emit.File{
	{Name: "matmul_avx512", Build: products(avx512, 12)},
	{Name: "matmul_avx2", Build: products(avx2, 6)},
	{Name: "int8_avx512", Build: int8Kernels(avx512, 6)},
	{Name: "int8_avxvnni", Build: int8Kernels(avxVNNI, 3)},
	{Name: "int8_avx2", Build: int8Kernels(avx2, 3)},
	{Name: "int4_avx512", Build: int4Kernel(avx512)},
	{Name: "int4_avx2", Build: int4Kernel(avx2)},
	{Name: "softmax_avx512", Build: softmax(avx512)},
	{Name: "softmax_avx2", Build: softmax(avx2)},
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: attn DIRECTORY")
		os.Exit(2)
	}
	err := emit.Write(os.Args[1], "attn", "tools/asm/attn", files)
	if err == nil {
		err = arm.Write(os.Args[1], "attn", "tools/asm/attn", neon.Files)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "attn:", err)
		os.Exit(1)
	}
}
