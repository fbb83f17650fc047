package convert

import (
	"testing"

	"github.com/ridge-llm/ridge/quant"
)

// TestMixtureRules: the rules of llama-quantize that depend on importances, experts and shared key heads, and those of types of two and three bits, as they are read off its source
// (llama_tensor_get_type_impl in src/llama-quant.cpp, commit 007dbbf). All matrices are of layer 5 of 32 unless a case says otherwise.
func TestMixtureRules(t *testing.T) {
	in := func(name string, change ...func(*matrix)) matrix {
		m := matrix{name: name, layer: 5, layers: 32, group: 1}
		for _, c := range change {
			c(&m)
		}
		return m
	}
	first, shared := func(m *matrix) { m.layer = 3 }, func(m *matrix) { m.group = 4 }
	eight, many, weighed := func(m *matrix) { m.experts = 8 }, func(m *matrix) { m.experts = 64 }, func(m *matrix) { m.importances = true }
	large := func(m *matrix) { m.layers, m.group = 80, 8 }
	output := func(m *matrix) { m.output = true }
	for _, c := range []struct {
		of   string
		m    matrix
		want quant.Format
	}{
		{"IQ2_XXS", in("attn_v"), quant.Q2_K}, {"IQ2_XXS", in("attn_v", shared), quant.Q4_K}, {"IQ2_XXS", in("attn_v", many), quant.Q4_K},
		{"IQ2_XXS", in("attn_k", eight), quant.Q4_K}, {"IQ2_XXS", in("attn_k", many), quant.IQ2_XXS}, {"IQ2_XXS", in("attn_output"), quant.IQ2_XXS},
		{"IQ2_XXS", in("ffn_down", first), quant.Q2_K}, {"IQ2_XXS", in("ffn_down"), quant.IQ2_XXS}, {"IQ2_XXS", in("token_embd"), quant.Q2_K},
		{"IQ2_XXS", in("output", output), quant.Q5_K}, {"IQ2_XXS", in("attn_v", large), quant.Q4_K},
		{"IQ1_S", in("attn_output"), quant.IQ2_XXS}, {"IQ1_M", in("attn_output", eight), quant.Q5_K}, {"IQ1_S", in("attn_v"), quant.Q2_K}, {"IQ1_M", in("ffn_down", first), quant.Q2_K},
		{"IQ1_M", in("ffn_down"), quant.IQ1_M}, {"IQ1_S", in("token_embd"), quant.Q2_K}, {"IQ1_S", in("output", output), quant.Q5_K}, {"IQ1_S", in("attn_v", large), quant.Q4_K},
		{"IQ2_S", in("ffn_up"), quant.IQ2_XS}, {"IQ2_S", in("attn_v"), quant.IQ3_S}, {"IQ2_S", in("attn_output"), quant.IQ3_S}, {"IQ2_S", in("attn_output", eight), quant.Q5_K},
		{"IQ2_M", in("ffn_up"), quant.IQ2_S}, {"IQ2_M", in("token_embd"), quant.IQ3_S}, {"IQ2_M", in("ffn_down", first), quant.IQ3_S}, {"IQ2_M", in("token_embd", output), quant.Q5_K},
		{"IQ3_XXS", in("attn_q"), quant.IQ2_S}, {"IQ3_XXS", in("attn_k"), quant.IQ2_S}, {"IQ3_XXS", in("attn_output"), quant.IQ3_S},
		{"IQ3_XXS", in("attn_v"), quant.IQ3_S}, {"IQ3_XXS", in("attn_v", weighed), quant.IQ3_XXS}, {"IQ3_XXS", in("attn_v", shared), quant.Q4_K}, {"IQ3_XXS", in("attn_v", large), quant.Q5_K},
		{"IQ3_XXS", in("ffn_down", first), quant.Q4_K}, {"IQ3_XXS", in("ffn_down"), quant.Q3_K}, {"IQ3_XXS", in("ffn_down", weighed), quant.IQ3_XXS}, {"IQ3_XXS", in("token_embd"), quant.IQ3_S},
		{"IQ3_XXS", in("output", output), quant.Q5_K}, {"IQ3_XXS", in("attn_k", eight), quant.Q8_0},
		{"IQ3_XS", in("attn_q"), quant.IQ3_XXS}, {"IQ3_XS", in("ffn_gate"), quant.IQ3_XXS}, {"IQ3_XS", in("ffn_up", first), quant.IQ3_S}, {"IQ3_XS", in("ffn_down"), quant.IQ3_S},
		{"IQ3_S", in("attn_v", shared), quant.Q4_K}, {"IQ3_S", in("attn_v"), quant.IQ3_S}, {"IQ3_S", in("attn_output", eight), quant.Q5_K}, {"IQ3_S", in("output", output), quant.Q6_K},
		{"IQ3_M", in("attn_v"), quant.Q4_K}, {"IQ3_M", in("attn_output"), quant.Q4_K}, {"IQ3_M", in("ffn_down", first), quant.Q4_K}, {"IQ3_M", in("ffn_down"), quant.IQ3_S},
		{"IQ3_M", in("ffn_down", eight, func(m *matrix) { m.layer = 6 }), quant.Q4_K}, {"IQ3_M", in("attn_qkv"), quant.Q4_K},
		{"IQ4_XS", in("ffn_down", first), quant.Q5_K}, {"IQ4_XS", in("ffn_down", first, weighed), quant.IQ4_XS}, {"IQ4_XS", in("attn_v", shared), quant.Q5_K},
		{"Q4_0", in("ffn_down", first, weighed), quant.Q4_1}, {"Q4_0", in("ffn_down", first), quant.Q4_0}, {"Q5_0", in("ffn_down", first, weighed), quant.Q5_1},
		{"Q2_K_S", in("attn_v"), quant.Q2_K}, {"Q2_K_S", in("attn_v", shared), quant.Q4_K}, {"Q2_K_S", in("ffn_down", first), quant.Q4_K}, {"Q2_K_S", in("ffn_down"), quant.Q2_K},
		{"Q3_K_S", in("attn_v", large), quant.Q5_K}, {"Q4_K_M", in("attn_kv_b", first), quant.Q6_K}, {"Q2_K", in("attn_v", large), quant.Q5_K},
		{"Q4_K_M", in("attn_v", eight), quant.Q8_0}, {"Q4_K_M", in("attn_k", eight), quant.Q8_0}, {"Q4_K_M", in("attn_output", eight), quant.Q5_K}, {"Q3_K_L", in("attn_output", eight), quant.Q3_K},
		{"Q6_K", in("attn_k", eight), quant.Q8_0}, {"F16", in("attn_k", eight), quant.F16}, {"Q3_K_M", in("attn_k", many), quant.Q3_K},
	} {
		typ, err := ParseType(c.of)
		if err != nil {
			t.Fatal(err)
		}
		if got := typ.of(c.m); got != c.want {
			t.Errorf("%s: %+v is %s and should be %s", c.of, c.m, got, c.want)
		}
	}
}
