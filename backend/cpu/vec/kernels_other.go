//go:build !amd64 && !arm64

package vec

import "github.com/ridge-llm/ridge/backend/cpu/gemm"

// kernelsOf a tier: there is one.
func kernelsOf(gemm.Tier) *kernels { return generic }

// Pause waits between two loads of a spin loop.
func Pause(n int) {
	for range 20 * n {
	}
}
