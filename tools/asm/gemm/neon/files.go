// Package neon writes the arm64 assembly of package backend/cpu/gemm, whose documentation says which tiles were chosen and
// why. General rules: no conversions of integers to floats in loops (both halves of one pipe for two cycles on Neoverse N1),
// no LD1R (a vector operation beside the load), and shifts only where nothing else will do (half of the pipes).
package neon

import "github.com/ridge-llm/ridge/tools/asm/arm"

// Files of the package.
var Files = []arm.File{
	{Name: "dot_neon", Build: mullDots},
	{Name: "dot_dotprod", Build: sdots},
	{Name: "dot_i8mm", Build: mmlaDots},
	{Name: "scales_neon", Build: scales},
	{Name: "acts_neon", Build: acts},
	{Name: "pack_neon", Build: packs},
	{Name: "panel_neon", Build: panels},
	{Name: "rows_neon", Build: rows},
	{Name: "peak_neon", Build: peaks},
}
