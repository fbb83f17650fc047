package pass_test

import (
	"testing"

	"github.com/ridge-llm/ridge/pass"
)

// TestApartFrom: experts of first layers are apart where there are any among them on the second device; a model without any is left to the layout's check.
func TestApartFrom(t *testing.T) {
	for _, c := range []struct {
		model               string
		last, experts, want int
	}{
		{"kimi-linear", 4, 1, 0}, // whose first layer is dense
		{"kimi-linear", 4, 2, 2},
		{"qwen3moe-ofall", 2, 1, 1},
		{"qwen3moe-ofall", 1, 1, 0},
		{"llama-default", 2, 1, 1},
	} {
		g := small(t, c.model)
		if got := pass.ApartFrom(g, min(c.last, g.Layers()), c.experts); got != c.want {
			t.Errorf("%s, %d layers on the second device: the experts of the first %d are apart where those of %d are asked for, and should be of %d", c.model, c.last, got, c.experts, c.want)
		}
	}
}
