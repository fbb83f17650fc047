package trace

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
)

// lengths is a distribution of numbers of tokens.
type lengths struct {
	kind lengthKind
	a, b float64 // fixed: a; even: from a to b; lognormal: mean a, standard deviation b
}

type lengthKind int

const (
	fixed lengthKind = iota
	even
	lognormal
)

// parseLengths reads "512", "100-800" or "512/300".
func parseLengths(name, text string) (lengths, error) {
	l := lengths{}
	first, second, two := strings.Cut(text, "-")
	if two {
		l.kind = even
	} else if first, second, two = strings.Cut(text, "/"); two {
		l.kind = lognormal
	}
	a, err := whole(name, first, 1, MaxTokens)
	b := a
	if err == nil && two {
		b, err = whole(name, second, 1, MaxTokens)
	}
	if err != nil || l.kind == even && b < a {
		return l, fmt.Errorf("%s is %q; tokens are possible (512), a range of them (100-800), or mean and standard deviation of a lognormal distribution (512/300)", name, text)
	}
	l.a, l.b = float64(a), float64(b)
	return l, nil
}

// draw draws a length.
func (l lengths) draw(rng *rand.Rand) int {
	switch l.kind {
	case even:
		return int(l.a) + rng.IntN(int(l.b-l.a)+1)
	case lognormal:
		variance := math.Log(1 + l.b*l.b/(l.a*l.a)) // of the logarithm
		x := math.Exp(math.Log(l.a) - variance/2 + math.Sqrt(variance)*rng.NormFloat64())
		return int(min(max(math.Round(x), 1), MaxTokens))
	}
	return int(l.a)
}
