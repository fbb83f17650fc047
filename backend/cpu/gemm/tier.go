package gemm

import "fmt"

// Tier is a set of instructions that one copy of the kernels is written for. The caller chooses one and passes it
// along; nothing in this package looks at the machine but Tiers.
type Tier uint8

// The tiers, slowest first on either architecture. AVX-512 machines without VNNI run AVX2.
const (
	Generic    Tier = iota // plain Go
	AVX2                   // with FMA and F16C
	AVXVNNI                // AVX2 and the byte dot product in its 256-bit form
	AVX512                 // F, BW, VL, DQ and VNNI
	AVX512BF16             // AVX512 and the bf16 dot product
	NEON                   // arm64: what every processor has
	DotProd                // NEON and the byte dot product
	I8MM                   // DotProd and the product of byte matrices
	BF16                   // I8MM and the product of bf16 matrices
	tierCount
)

var tierNames = [tierCount]string{"generic", "avx2", "avxvnni", "avx512", "avx512bf16", "neon", "dotprod", "i8mm", "bf16"}

func (t Tier) String() string { return tierNames[t] }

// Choose is the tier to prefer on this machine, or the one of that name; "" is no limit.
func Choose(name string) (Tier, error) {
	have := Tiers()
	if name == "" {
		return have[0], nil
	}
	for _, t := range have {
		if t.String() == name {
			return t, nil
		}
	}
	return Generic, fmt.Errorf("gemm: no kernels called %q run on this machine (RIDGE_CPU); it has %v", name, have)
}
