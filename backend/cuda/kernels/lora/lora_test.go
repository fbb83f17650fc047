package lora

import (
	"testing"
	"unsafe"

	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
)

func TestMirrors(t *testing.T) {
	gputest.Mirrors(t, "lora/lora", map[string]uintptr{"lora_shrink": unsafe.Sizeof(Params{}), "lora_replace": unsafe.Sizeof(Params{}), "lora_expand": unsafe.Sizeof(Params{}), "lora_embed": unsafe.Sizeof(EmbedParams{})})
	gputest.Mirrors(t, "lora/mma", map[string]uintptr{"lora_shrink_mma": unsafe.Sizeof(Params{}), "lora_expand_mma": unsafe.Sizeof(Params{}), "lora_delta_mma": unsafe.Sizeof(Params{}), "lora_planes_mma": unsafe.Sizeof(PlanesParams{}), "lora_tiles_mma": unsafe.Sizeof(TilesParams{}), "lora_clear": unsafe.Sizeof(ClearParams{})})
}
