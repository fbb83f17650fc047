//go:build !amd64 && !arm64

package gemm

// Tiers lists what this machine runs, the one to prefer first; Generic is always the last.
func Tiers() []Tier { return []Tier{Generic} }
