package indexer

import (
	"testing"
	"unsafe"

	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
)

// TestMirrors; what the kernels choose is tested by the op table (backend/cuda/device_test.go).
func TestMirrors(t *testing.T) {
	gputest.Mirrors(t, "attention/indexer/scores", map[string]uintptr{"index_scores_": unsafe.Sizeof(Params{})})
	gputest.Mirrors(t, "attention/indexer/select", map[string]uintptr{"select_keys": unsafe.Sizeof(Params{})})
}
