package modeldir

// The keys under which a GGUF file recommends how to sample, the same as llama.cpp's.
const (
	TemperatureKey       = "general.sampling.temp"
	TopKKey              = "general.sampling.top_k"
	TopPKey              = "general.sampling.top_p"
	MinPKey              = "general.sampling.min_p"
	RepetitionPenaltyKey = "general.sampling.penalty_repeat"
)

// ggufGeneration is what a GGUF file's metadata recommend. The tokenizer knows which tokens end an answer.
func ggufGeneration(meta map[string]any) Generation {
	var g Generation
	for key, to := range map[string]**float64{
		TemperatureKey: &g.Temperature, TopPKey: &g.TopP, MinPKey: &g.MinP, RepetitionPenaltyKey: &g.RepetitionPenalty,
	} {
		if v, ok := meta[key].(float32); ok {
			x := float64(v)
			*to = &x
		}
	}
	if v, ok := meta[TopKKey].(int32); ok && v >= 0 {
		k := int(v)
		g.TopK = &k
	}
	g.Greedy = g.Temperature != nil && *g.Temperature == 0
	return g
}
