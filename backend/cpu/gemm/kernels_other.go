//go:build !amd64 && !arm64

package gemm

// kernels of a tier; the tier must be one of Tiers.
func (t Tier) kernels() *kernels { return genericKernels }
