// Package evaluate measures the quality of a model on a text: perplexity, and how far its predictions are from those of another model of the
// same vocabulary.
package evaluate

import "fmt"

// Window is a part of a text that is computed by itself.
type Window struct {
	Tokens []int32
	Score  int // tokens from this one on, at least the second, are predicted; those before are context alone
}

// Chunks cuts a text as llama.cpp's llama-perplexity does: parts of n tokens that do not overlap, the first of each replaced by bos (−1: kept),
// whose second halves are scored. What is left at the end is not used.
func Chunks(tokens []int32, n int, bos int32) ([]Window, error) {
	if n < 4 || len(tokens) < n {
		return nil, fmt.Errorf("the text has %d tokens, and contexts of %d, at least 4, are wanted; give a longer text or a smaller --context", len(tokens), n)
	}
	var all []Window
	for ; len(tokens) >= n; tokens = tokens[n:] {
		part := append([]int32(nil), tokens[:n]...)
		if bos >= 0 {
			part[0] = bos
		}
		all = append(all, Window{part, n/2 + 1})
	}
	return all, nil
}

// Strided cuts a text as transformers' documentation of perplexity does: parts of n tokens, each stride tokens further on, of which the tokens
// that no part before had are scored, but for the first of a part, which nothing precedes.
func Strided(tokens []int32, n, stride int) ([]Window, error) {
	if n < 2 || stride < 1 || stride > n || len(tokens) < 2 {
		return nil, fmt.Errorf("the text has %d tokens, and contexts of %d every %d are wanted; a stride is from 1 to the context", len(tokens), n, stride)
	}
	var all []Window
	for from, before := 0, 0; ; from += stride {
		end := min(from+n, len(tokens))
		all = append(all, Window{tokens[from:end], max(1, before-from)})
		if before = end; end == len(tokens) {
			return all, nil
		}
	}
}
