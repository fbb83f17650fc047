package gemm

import "github.com/klauspost/cpuid/v2"

// Tiers lists what this machine runs, the one to prefer first; Generic is always the last.
func Tiers() []Tier {
	var tiers []Tier
	dot, i8mm, bf16 := cpuid.CPU.Supports(cpuid.ASIMDDP), cpuid.CPU.Supports(cpuid.I8MM), cpuid.CPU.Supports(cpuid.BF16)
	if dot && i8mm && bf16 {
		tiers = append(tiers, BF16)
	}
	if dot && i8mm {
		tiers = append(tiers, I8MM)
	}
	if dot {
		tiers = append(tiers, DotProd)
	}
	return append(tiers, NEON, Generic)
}
