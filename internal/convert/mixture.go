package convert

import "github.com/ridge-llm/ridge/quant"

// The rules of llama-quantize's mixtures. Fused queries, keys and values count as values.

// outputQ6K gives the matrix that makes the logits more bits than the rest, where these have few.
func outputQ6K(m matrix) quant.Format {
	if m.output && m.format.Bits() < quant.Q6_K.Bits() {
		return quant.Q6_K
	}
	return m.format
}

// outputQ8 is for MXFP4, which suits only matrices inside the layers.
func outputQ8(m matrix) quant.Format {
	if m.output || m.name == "token_embd" {
		return quant.Q8_0
	}
	return m.format
}

// denseEnds is for sparse formats: embeddings, the matrix that makes the logits and routers keep all of their numbers.
func denseEnds(m matrix) quant.Format {
	if m.output || m.name == "token_embd" || m.name == "ffn_gate_inp" {
		return m.format.Descriptor().Sparsity.Values
	}
	return m.format
}

func isValue(m matrix) bool { return m.name == "attn_v" || m.name == "attn_qkv" }

// inPart reports whether a layer is in the first 1/n of all.
func inPart(m matrix, n int) bool { return m.layer < m.layers/n }

// useMoreBits reports whether a layer is in the first or last eighth, or every third between.
func useMoreBits(m matrix) bool {
	eighth := m.layers / 8
	return m.layer < eighth || m.layer >= 7*m.layers/8 || (m.layer-eighth)%3 == 2
}

// isLarge70B reports whether the model has the shape of a 70B Llama, whose value matrices are so small a part that more bits cost next to nothing.
func isLarge70B(m matrix) bool { return m.layers == 80 && m.group > 1 }

func mixMoreBits(m matrix) quant.Format {
	switch {
	case (isValue(m) || m.name == "ffn_down") && useMoreBits(m):
		return quant.Q6_K
	case isValue(m) && m.format == quant.Q4_K && isLarge70B(m):
		return quant.Q5_K
	}
	return outputQ6K(m)
}

func mixQ2K(m matrix) quant.Format {
	switch {
	case isValue(m) && isLarge70B(m):
		return quant.Q5_K
	case isValue(m) && m.group >= 4:
		return quant.Q4_K
	case isValue(m) || m.name == "ffn_down" || m.name == "attn_output":
		return quant.Q3_K
	}
	return outputQ6K(m)
}

func mixQ3KM(m matrix) quant.Format {
	switch {
	case isValue(m) && (m.layer < 2 || isLarge70B(m)), m.name == "ffn_down" && inPart(m, 16):
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
	if isValue(m) && (m.layer < 4 || isLarge70B(m)) || m.name == "ffn_down" && inPart(m, 8) {
		return quant.Q5_K
	}
	return outputQ6K(m)
}

// mixIQ2 is for the formats of two bits: embeddings, values and the first layers' down matrices get more.
func mixIQ2(m matrix) quant.Format {
	more := quant.Q2_K
	if m.format == quant.IQ2_S {
		more = quant.IQ3_S
	}
	switch {
	case m.output:
		return quant.Q5_K
	case isValue(m) && m.group >= 4:
		return quant.Q4_K
	case m.name == "token_embd" || isValue(m) || m.name == "ffn_down" && inPart(m, 8) || m.name == "attn_output" && m.format == quant.IQ2_S:
		return more
	}
	return m.format
}

// mixIQ3 is for those of three bits.
func mixIQ3(m matrix) quant.Format {
	switch {
	case m.output && m.format == quant.IQ3_XXS:
		return quant.Q5_K
	case m.output:
		return quant.Q6_K
	case isValue(m) && m.group >= 4:
		return quant.Q4_K
	case m.name == "token_embd":
		return quant.IQ3_S
	}
	return m.format
}

func mixIQ4NL(m matrix) quant.Format {
	if isValue(m) && m.group >= 4 || m.name == "ffn_down" && inPart(m, 8) {
		return quant.Q5_K
	}
	return outputQ6K(m)
}
