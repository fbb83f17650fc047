package model

import (
	"math"
	"testing"
)

// TestShapes counts the weights of every shape against what its publishers say it has, in millions.
func TestShapes(t *testing.T) {
	published := map[string]float64{
		"llama-2-7b": 6738, "llama-2-13b": 13016, "llama-2-70b": 68977, "llama-3.1-8b": 8030, "llama-3.1-70b": 70554, "llama-3.1-405b": 405853, "llama-3.2-1b": 1236, "llama-3.2-3b": 3213,
		"llama-3-draft-100m": 101.1, // nobody's: a draft model's, for measurements
		"tinyllama-1.1b":     1100, "smollm2-135m": 134.5, "smollm2-360m": 361.8, "smollm2-1.7b": 1711, "mistral-7b": 7248,
		"qwen2.5-0.5b": 494, "qwen2.5-1.5b": 1544, "qwen2.5-7b": 7616, "dream-7b": 7616, "llada-8b": 8016, "qwen2.5-14b": 14770, "qwen3-0.6b": 596, "qwen3-1.7b": 1721,
		"qwen3-4b": 4022, "qwen3-8b": 8191, "qwen3-14b": 14768, "qwen3-32b": 32762, "gemma-3-1b": 1000, "gemma-3-4b": 3880,
		"phi-3-mini": 3821, "phi-4": 14660, "gpt2": 124.4, "gpt2-xl": 1557.6,
		"deepseek-v2-lite": 15706, "deepseek-v3": 671026, "kimi-k2": 1026408,
		"lfm2-1.2b": 1170.3, "qwen3.5-0.8b": 752.4, "qwen3.5-4b": 4205.8, "qwen3.5-9b": 8953.8, // without what sees
		"gpt-oss-20b": 20910, "gpt-oss-120b": 116830, "mixtral-8x7b": 46703, "mixtral-8x22b": 140630, "qwen3-30b-a3b": 30532, "qwen3-235b-a22b": 235094,
		"smollm3-3b": 3075.1, "olmo-2-7b": 7298.6, "llama-4-scout": 107770, "llama-4-maverick": 400710, "glm-4-9b": 9400.3, "glm-4.5-air": 106850,
		"minimax-m2": 228690, "command-r7b": 8028, "granite-3.3-8b": 8170.8, "seed-oss-36b": 36151, "apertus-8b": 8053.3, "dots.llm1": 142774,
		"gemma-3n-e2b": 4456.2, "gemma-3n-e4b": 6866.7, // without what sees and hears
		"gemma-4-e2b": 4628.6, "gemma-4-e4b": 7463.0, "gemma-4-12b": 11907.4, "gemma-4-26b-a4b": 25233.1, "gemma-4-31b": 30697.3,
		"ernie-4.5-21b-a3b": 21825, "qwen1.5-moe-a2.7b": 14316,
	}
	for _, name := range Shapes() {
		m, err := Shape(name)
		if err != nil {
			t.Error(err)
			continue
		}
		e, err := m.Export()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		n := 0.0
		for _, x := range e.Tensors {
			rows, cols := x.Size()
			n += float64(rows*cols) / 1e6
		}
		if want := published[name]; math.Abs(n-want) > 0.001*want {
			t.Errorf("%s has %.1f million weights, and %.1f are published", name, n, want)
		}
	}
	if _, err := Shape("gpt5"); err == nil {
		t.Error("there is a shape gpt5")
	}
}
