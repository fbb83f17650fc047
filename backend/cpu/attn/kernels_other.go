//go:build !amd64 && !arm64

package attn

import "github.com/ridge-llm/ridge/backend/cpu/gemm"

// kernelsOf a tier: there is one.
func kernelsOf(gemm.Tier) *kernels { return generic }
