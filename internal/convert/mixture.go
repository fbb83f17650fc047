package convert

import "github.com/ridge-llm/ridge/quant"

// The rules of llama-quantize's mixtures (src/llama-quant.cpp of llama.cpp, commit 007dbbf). Fused queries, keys and values count as values.

// outputQ6K gives the matrix that makes the logits more bits than the rest, where these have few.
func outputQ6K(m matrix) quant.Format {
	if m.output && m.format.Bits() < quant.Q6_K.Bits() {
		return quant.Q6_K
	}
	return m.format
}

// outputQ8 is for MXFP4, which suits only matrices inside the layers.
func outputQ8(m matrix) quant.Format {
	if m.output || isEmbedding(m) {
		return quant.Q8_0
	}
	return m.format
}

// denseEnds is for sparse formats: embeddings, the matrix that makes the logits and routers keep all of their numbers.
func denseEnds(m matrix) quant.Format {
	if m.output || isEmbedding(m) || m.name == "ffn_gate_inp" {
		return m.format.Descriptor().Sparsity.Values
	}
	return m.format
}

func isValue(m matrix) bool {
	return m.name == "attn_v" || m.name == "attn_qkv" || m.name == "attn_kv_b"
}

func isEmbedding(m matrix) bool { return m.name == "token_embd" || m.name == "per_layer_token_embd" }

// inPart reports whether a layer is in the first 1/n of all.
func inPart(m matrix, n int) bool { return m.layer < m.layers/n }

// useMoreBits reports whether a layer is in the first or last eighth, or every third between.
func useMoreBits(m matrix) bool {
	eighth := m.layers / 8
	return m.layer < eighth || m.layer >= 7*m.layers/8 || (m.layer-eighth)%3 == 2
}

// isLarge70B reports whether the model has the shape of a 70B Llama, whose value matrices are so small a part that more bits cost next to nothing.
func isLarge70B(m matrix) bool { return m.layers == 80 && m.group > 1 }

// special is what a mixture of a format makes of a matrix for which models of some shapes have rules of their own: values of a 70B Llama, and what a model of eight experts
// (Mixtral) has beside these, where more bits are a small part of the file.
func special(t Type, m matrix, f quant.Format) quant.Format {
	switch {
	case isValue(m) && isLarge70B(m) && (f == quant.Q3_K || f == quant.Q4_K):
		f = quant.Q5_K
	case m.experts == 8 && m.name == "attn_output" && fiveBitOutputs[t.Name]:
		f = quant.Q5_K
	case m.experts == 8 && m.name == "attn_output":
		f = t.Format
	}
	if m.experts == 8 && (isValue(m) || m.name == "attn_k") {
		return quant.Q8_0
	}
	return f
}

// fiveBitOutputs are the mixtures that give the matrix behind attention five bits beside eight experts.
var fiveBitOutputs = map[string]bool{
	"Q2_K": true, "Q3_K_S": true, "Q3_K_M": true, "Q4_K_S": true, "Q4_K_M": true,
	"IQ3_XXS": true, "IQ3_XS": true, "IQ3_S": true, "IQ3_M": true, "IQ4_NL": true, "IQ4_XS": true,
}

func mixMoreBits(m matrix) quant.Format {
	if (isValue(m) || m.name == "ffn_down") && useMoreBits(m) {
		return quant.Q6_K
	}
	return outputQ6K(m)
}

func mixQ2K(m matrix) quant.Format {
	switch {
	case isValue(m) && m.group >= 4:
		return quant.Q4_K
	case isValue(m) || m.name == "ffn_down" || m.name == "attn_output":
		return quant.Q3_K
	}
	return outputQ6K(m)
}

func mixQ2KS(m matrix) quant.Format {
	if isValue(m) && m.group >= 4 || m.name == "ffn_down" && inPart(m, 8) {
		return quant.Q4_K
	}
	return outputQ6K(m)
}

func mixQ3KM(m matrix) quant.Format {
	switch {
	case isValue(m) && m.layer < 2, m.name == "ffn_down" && inPart(m, 16):
		return quant.Q5_K
	case isValue(m) || m.name == "ffn_down" || m.name == "attn_output":
		return quant.Q4_K
	}
	return outputQ6K(m)
}

func mixQ3KL(m matrix) quant.Format {
	if isValue(m) || m.name == "ffn_down" || m.name == "attn_output" {
		return quant.Q5_K
	}
	return outputQ6K(m)
}

func mixQ4KS(m matrix) quant.Format {
	if isValue(m) && m.layer < 4 || m.name == "ffn_down" && inPart(m, 8) {
		return quant.Q5_K
	}
	return outputQ6K(m)
}

// mixClassic is for Q4_0 and Q5_0: with importances the first layers' down matrices get minima.
func mixClassic(affine quant.Format) func(m matrix) quant.Format {
	return func(m matrix) quant.Format {
		if m.importances && m.name == "ffn_down" && inPart(m, 8) {
			return affine
		}
		return outputQ6K(m)
	}
}

// mixIQ2 is for the formats of one and two bits: embeddings, values, the first layers' down matrices and, where these get three bits, the matrix behind attention get more.
func mixIQ2(more quant.Format) func(m matrix) quant.Format {
	return func(m matrix) quant.Format {
		switch {
		case m.output:
			return quant.Q5_K
		case isValue(m) && (m.group >= 4 || m.experts >= 4), m.name == "attn_k" && m.experts == 8:
			return quant.Q4_K
		case m.name == "attn_output" && m.experts == 8:
			return quant.Q5_K
		case m.name == "attn_output" && (m.format == quant.IQ1_S || m.format == quant.IQ1_M):
			return quant.IQ2_XXS
		case isEmbedding(m) || isValue(m) || m.name == "ffn_down" && inPart(m, 8) || m.name == "attn_output" && more == quant.IQ3_S:
			return more
		}
		return m.format
	}
}

// mixIQ3XXS gives queries and keys less than the rest. Values and down matrices get more where no importances say which of their columns count.
func mixIQ3XXS(m matrix) quant.Format {
	switch {
	case m.output:
		return quant.Q5_K
	case isEmbedding(m) || m.name == "attn_output":
		return quant.IQ3_S
	case isValue(m) && m.group >= 4:
		return quant.Q4_K
	case isValue(m) && !m.importances:
		return quant.IQ3_S
	case m.name == "attn_q" || m.name == "attn_k":
		return quant.IQ2_S
	case m.name == "ffn_down" && !m.importances && inPart(m, 8):
		return quant.Q4_K
	case m.name == "ffn_down" && !m.importances:
		return quant.Q3_K
	}
	return m.format
}

func mixIQ3S(m matrix) quant.Format {
	if isValue(m) && m.group >= 4 {
		return quant.Q4_K
	}
	return outputQ6K(m)
}

// mixIQ3XS gives less to queries and keys, and to gate and up matrices between the first and the last eighth of the layers.
func mixIQ3XS(m matrix) quant.Format {
	inner := !inPart(m, 8) && m.layer < 7*m.layers/8
	if m.name == "attn_q" || m.name == "attn_k" || (m.name == "ffn_gate" || m.name == "ffn_up") && inner {
		return quant.IQ3_XXS
	}
	return mixIQ3S(m)
}

func mixIQ3M(m matrix) quant.Format {
	if isValue(m) || m.name == "attn_output" || m.name == "ffn_down" && (inPart(m, 8) || m.experts == 8 && useMoreBits(m)) {
		return quant.Q4_K
	}
	return outputQ6K(m)
}

func mixIQ4NL(m matrix) quant.Format {
	if isValue(m) && m.group >= 4 || m.name == "ffn_down" && inPart(m, 8) && !m.importances {
		return quant.Q5_K
	}
	return outputQ6K(m)
}
