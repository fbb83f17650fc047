package rows

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// LatentWriteParams mirrors LatentWriteParams of latent.cu.
type LatentWriteParams struct {
	Step        kernels.Step
	A, B, Cache driver.Ptr // [T, ALen], [T, BLen], one behind the other in a row; pages of [tokens][ALen + BLen], and scales if there are any
	ALen, BLen  int32
}

// LatentWrite finds the kernel that writes rows of one type in a latent cache of another.
func LatentWrite(l *kernels.Loader, from, cache graph.Type) (*driver.Kernel, error) {
	return l.Kernel("rows/latent", kernels.Name("latent_write", from, cache), 0)
}
