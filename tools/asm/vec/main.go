// Command vec writes the assembly of package backend/cpu/vec into the directory it is given.
package main

import (
	"fmt"
	"os"

	"github.com/ridge-llm/ridge/tools/asm/arm"
	"github.com/ridge-llm/ridge/tools/asm/emit"
	"github.com/ridge-llm/ridge/tools/asm/vec/neon"
)

var (
	avx512 = emit.Width{Bytes: 64, VNNI: true}
	avx2   = emit.Width{Bytes: 32}
)

var files = []emit.File{
	{Name: "pause", Build: pause},
	{Name: "rows_avx512", Build: rows(avx512)},
	{Name: "rows_avx2", Build: rows(avx2)},
	{Name: "acts_avx512", Build: acts(avx512)},
	{Name: "acts_avx2", Build: acts(avx2)},
	{Name: "rotate_avx512", Build: rotations(avx512)},
	{Name: "rotate_avx2", Build: rotations(avx2)},
	{Name: "convert_avx512", Build: conversions(avx512)},
	{Name: "convert_avx2", Build: conversions(avx2)},
	{Name: "delta_avx512", Build: delta(avx512)},
	{Name: "delta_avx2", Build: delta(avx2)},
	{Name: "states_avx512", Build: states(avx512)},
	{Name: "states_avx2", Build: states(avx2)},
	{Name: "sparse_avx512", Build: sparse(avx512)},
	{Name: "sparse_avx2", Build: sparse(avx2)},
	{Name: "expand_avx512", Build: expansions(avx512)},
	{Name: "expand_avx2", Build: expansions(avx2)},
	{Name: "words", Build: roundings},
	{Name: "bytes", Build: rowBytes},
	{Name: "adapters_avx512", Build: adapters(avx512)},
	{Name: "adapters_avx2", Build: adapters(avx2)},
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: vec DIRECTORY")
		os.Exit(2)
	}
	err := emit.Write(os.Args[1], "vec", "tools/asm/vec", files)
	if err == nil {
		err = arm.Write(os.Args[1], "vec", "tools/asm/vec", neon.Files)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "vec:", err)
		os.Exit(1)
	}
}
