//go:build !amd64 && !arm64

package vec

import "github.com/ridge-llm/ridge/backend/cpu/gemm"

// kernelsOf a tier: there is one.
func kernelsOf(gemm.Tier) *kernels { return generic }

// Pause is what to do between two looks at a number that another core will change.
func Pause(n int) {
	for range 20 * n {
	}
}
