package main

import "fmt"

// The largest step that is priced: with these the FLOPs and bytes of the largest models stay within 64 bits.
const (
	maxStepSeqs   = 1 << 16
	maxStepTokens = 1 << 22
	maxStepPairs  = 5e11 // of a new token and one that it attends to
)

// checkStep says what is wrong with a step of so many sequences, each of new tokens behind past ones in the cache.
func checkStep(seqs, tokens, past int) error {
	all := float64(seqs) * float64(tokens)
	switch {
	case seqs > maxStepSeqs:
		return fmt.Errorf("a step of %d sequences; at most %d are priced", seqs, maxStepSeqs)
	case all > maxStepTokens:
		return fmt.Errorf("a step of %.4g new tokens; at most %d are priced", all, maxStepTokens)
	case all*(float64(past)+float64(tokens)) > maxStepPairs:
		return fmt.Errorf("%.4g new tokens that attend to up to %.4g each; a product of at most %.0e is priced", all, float64(past)+float64(tokens), maxStepPairs)
	}
	return nil
}
