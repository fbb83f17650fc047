package convert

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ridge-llm/ridge/quant"
)

// Type is a choice of number formats for a whole file: one for all its matrices, or a mixture by the names and rules of
// llama-quantize (github.com/ggml-org/llama.cpp, src/llama-quant.cpp), which give more bits to the matrices that suffer
// most from having few. The zero value keeps every matrix as it is.
type Type struct {
	Name   string
	Format quant.Format // of matrices that no rule gives another
	id     uint32       // general.file_type
	rule   func(m matrix) quant.Format
}

// rules are those of formats whose mixture is not outputQ6K.
var rules = map[quant.Format]func(m matrix) quant.Format{
	quant.Q4_0: mixClassic(quant.Q4_1), quant.Q5_0: mixClassic(quant.Q5_1), quant.IQ4_NL: mixIQ4NL, quant.IQ4_XS: mixIQ4NL, quant.MXFP4: outputQ8,
	quant.IQ1_S: mixIQ2(quant.Q2_K), quant.IQ1_M: mixIQ2(quant.Q2_K), quant.IQ2_XXS: mixIQ2(quant.Q2_K), quant.IQ3_XXS: mixIQ3XXS,
}

// mixtures are the types of formats that have several, or one of another name, instead of one by the format's name.
var mixtures = map[quant.Format][]Type{
	quant.Q2_K:   {{"Q2_K", quant.Q2_K, 10, mixQ2K}, {"Q2_K_S", quant.Q2_K, 21, mixQ2KS}},
	quant.Q3_K:   {{"Q3_K_S", quant.Q3_K, 11, outputQ6K}, {"Q3_K_M", quant.Q3_K, 12, mixQ3KM}, {"Q3_K_L", quant.Q3_K, 13, mixQ3KL}},
	quant.Q4_K:   {{"Q4_K_S", quant.Q4_K, 14, mixQ4KS}, {"Q4_K_M", quant.Q4_K, 15, mixMoreBits}},
	quant.Q5_K:   {{"Q5_K_S", quant.Q5_K, 16, outputQ6K}, {"Q5_K_M", quant.Q5_K, 17, mixMoreBits}},
	quant.IQ2_XS: {{"IQ2_XS", quant.IQ2_XS, 20, mixIQ2(quant.Q2_K)}, {"IQ2_S", quant.IQ2_XS, 28, mixIQ2(quant.IQ3_S)}},
	quant.IQ2_S:  {{"IQ2_M", quant.IQ2_S, 29, mixIQ2(quant.IQ3_S)}},
	quant.IQ3_S:  {{"IQ3_XS", quant.IQ3_S, 22, mixIQ3XS}, {"IQ3_S", quant.IQ3_S, 26, mixIQ3S}, {"IQ3_M", quant.IQ3_S, 27, mixIQ3M}},
}

// types are all that --type takes.
var types = func() (all []Type) {
	for _, f := range quant.Formats() {
		if several := mixtures[f]; several != nil {
			all = append(all, several...)
			continue
		}
		rule := rules[f]
		switch {
		case f.Descriptor().Sparsity != quant.Sparsity{}:
			rule = denseEnds
		case rule == nil:
			rule = outputQ6K
		}
		all = append(all, Type{f.String(), f, f.Descriptor().GGUF.File, rule})
	}
	return all
}()

// aliases are names that llama-quantize takes for its middle mixtures.
var aliases = map[string]string{"Q3_K": "Q3_K_M", "Q4_K": "Q4_K_M", "Q5_K": "Q5_K_M"}

// ParseType turns a name such as "Q4_K_M" or "bf16" into a Type; "" keeps matrices as they are.
func ParseType(name string) (Type, error) {
	if name == "" {
		return Type{}, nil
	}
	upper := strings.ToUpper(name)
	if full, ok := aliases[upper]; ok {
		upper = full
	}
	for _, t := range types {
		if t.Name == upper {
			return t, nil
		}
	}
	return Type{}, fmt.Errorf("convert: there is no type %q; possible are %s", name, strings.Join(TypeNames(), ", "))
}

// Sparse is the type whose matrices keep so many numbers of each few, "2:4", those of the largest magnitudes, in the numbers of t: BF16, which is that of
// the zero type too, or F16.
func (t Type) Sparse(structure string) (Type, error) {
	dense := t.Format
	if dense == quant.Invalid {
		dense = quant.BF16
	}
	for _, s := range types {
		if d := s.Format.Descriptor(); d.Sparsity != (quant.Sparsity{}) && d.Sparsity.String() == structure && d.Sparsity.Values == dense {
			return s, nil
		}
	}
	return Type{}, fmt.Errorf("convert: there is no sparsity %s in %s; 2:4 in BF16 and F16 is possible", structure, dense)
}

// TypeNames lists the types.
func TypeNames() []string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = t.Name
	}
	return names
}

// matrix is what the rules look at.
type matrix struct {
	name          string // without layer and ".weight": "attn_v", "token_embd"
	format        quant.Format
	layer, layers int
	group         int  // query heads that share one key head
	experts       int  // of a layer; 0: there are none
	output        bool // makes the logits
	importances   bool // are known for the file's matrices
}

func (t Type) of(m matrix) quant.Format {
	m.format = t.Format
	f := t.rule(m)
	if twoBits[t.Format] || m.output || t.Format.Block() == 1 || t.Format.Descriptor().Sparsity != (quant.Sparsity{}) {
		return f
	}
	return special(t, m, f)
}

// twoBits are the formats, of up to so many, whose mixtures have all of their rules in mixIQ2.
var twoBits = map[quant.Format]bool{quant.IQ1_S: true, quant.IQ1_M: true, quant.IQ2_XXS: true, quant.IQ2_XS: true, quant.IQ2_S: true}

// Ends are formats of the matrices at a model's two ends; Invalid: what the type gives them.
type Ends struct {
	Embedding quant.Format // of the table of embeddings
	Output    quant.Format // of the matrix that makes the logits; where that is the table of embeddings too, Embedding comes first
}

// ParseEnds turns names of formats into Ends; "" is Invalid.
func ParseEnds(embedding, output string) (e Ends, err error) {
	for _, end := range []struct {
		flag, name string
		to         *quant.Format
	}{{"--token-embedding-type", embedding, &e.Embedding}, {"--output-tensor-type", output, &e.Output}} {
		if end.name == "" {
			continue
		}
		f, err := quant.Parse(strings.ToUpper(end.name))
		if d := f.Descriptor(); err != nil || d.GGUF == nil || d.Sparsity != (quant.Sparsity{}) || !slices.Contains(quant.Formats(), f) {
			return e, fmt.Errorf("convert: %s is %q, which is no number format that a matrix can be written in, such as Q6_K", end.flag, end.name)
		}
		*end.to = f
	}
	return e, nil
}

// of is the format of a matrix; Invalid: it is at neither end, or none is given.
func (e Ends) of(m matrix) quant.Format {
	if isEmbedding(m) && e.Embedding != quant.Invalid {
		return e.Embedding
	}
	if m.output {
		return e.Output
	}
	return quant.Invalid
}

// formatFor is f, or its fallback where rows of cols numbers do not divide into its blocks.
func formatFor(f quant.Format, cols int) quant.Format {
	if cols%f.Block() == 0 {
		return f
	}
	if next := f.Descriptor().Fallback; next != quant.Invalid && cols%next.Block() == 0 {
		return next
	}
	return quant.F16
}
