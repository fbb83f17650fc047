// Command gemm writes the assembly of package backend/cpu/gemm into the directory it is given.
package main

import (
	"fmt"
	"os"

	"github.com/ridge-llm/ridge/tools/asm/arm"
	"github.com/ridge-llm/ridge/tools/asm/emit"
	"github.com/ridge-llm/ridge/tools/asm/gemm/neon"
)

var (
	avx512  = emit.Width{Bytes: 64, VNNI: true}
	avxVNNI = emit.Width{Bytes: 32, VNNI: true}
	avx2    = emit.Width{Bytes: 32}
)

var files = []emit.File{
	{Name: "peak", Build: peak},
	{Name: "acts_avx2", Build: acts},
	{Name: "acts_avx512", Build: narrowBF16},
	{Name: "scales_avx512", Build: scales(avx512)},
	{Name: "scales_avx2", Build: scales(avx2)},
	{Name: "dot_avx512", Build: dots(avx512, 6)},
	{Name: "tiles_avx512", Build: tiles(avx512)},
	{Name: "grouped_avx512", Build: grouped(avx512)},
	{Name: "grouped_avx2", Build: scaledGroups(avx2)},
	{Name: "grouped_avxvnni", Build: grouped(avxVNNI)},
	{Name: "batch_avx512", Build: batches(avx512)},
	{Name: "batch_avx2", Build: batches256(avx2)},
	{Name: "tiles_avxvnni", Build: tiles256(avxVNNI)},
	{Name: "tiles_avx2", Build: tiles256(avx2)},
	{Name: "words_avx2", Build: words(avx2)},
	{Name: "dot_avxvnni", Build: dots(avxVNNI, 3)},
	{Name: "dot_avx2", Build: dots256(avx2)},
	{Name: "rows_avx512", Build: rows(avx512, 6)},
	{Name: "rows_avx2", Build: rows(avx2, 3)},
	{Name: "panel_avx512", Build: panels(avx512, 12)},
	{Name: "panel_avx2", Build: panels(avx2, 6)},
	{Name: "pack_avx512", Build: packs(avx512)},
	{Name: "pack_avx2", Build: packs(avx2)},
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gemm DIRECTORY")
		os.Exit(2)
	}
	err := emit.Write(os.Args[1], "gemm", "tools/asm/gemm", files)
	if err == nil {
		err = arm.Write(os.Args[1], "gemm", "tools/asm/gemm", neon.Files)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gemm:", err)
		os.Exit(1)
	}
}
