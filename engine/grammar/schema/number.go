package schema

import (
	"math/big"

	"github.com/ridge-llm/ridge/engine/grammar/dfa"
	"github.com/ridge-llm/ridge/engine/grammar/syntax"
)

// numberFacts is the constraints of a number.
type numberFacts struct {
	low, high *bound
	factor    *big.Rat // the number is a multiple of it
	factorAt  *jsonValue
	fraction  bool // the number is no integer
}

// add takes a keyword of schema s.
func (n *numberFacts) add(s *jsonValue, key string, v *jsonValue) error {
	switch key {
	case "minimum":
		n.atLeast(v, isTrue(s.get("exclusiveMinimum")))
	case "exclusiveMinimum":
		if v.kind == jsonNumber {
			n.atLeast(v, true)
		}
	case "maximum":
		n.atMost(v, isTrue(s.get("exclusiveMaximum")))
	case "exclusiveMaximum":
		if v.kind == jsonNumber {
			n.atMost(v, true)
		}
	case "multipleOf":
		return n.multiple(v)
	case fractional:
		n.fraction = true
	}
	return nil
}

// isTrue reports whether a keyword is there and true, as exclusiveMinimum is beside minimum until draft 4.
func isTrue(v *jsonValue) bool { return v != nil && v.kind == jsonBool && v.text == "true" }

// bound is a minimum or maximum.
type bound struct {
	decimal
	strict bool // the bound itself is excluded
}

func (n *numberFacts) atLeast(v *jsonValue, strict bool) {
	d, _ := parseDecimal(v.text)
	b := &bound{d, strict}
	if n.low == nil || b.rat().Cmp(n.low.rat()) > 0 || b.rat().Cmp(n.low.rat()) == 0 && strict {
		n.low = b
	}
}

func (n *numberFacts) atMost(v *jsonValue, strict bool) {
	d, _ := parseDecimal(v.text)
	b := &bound{d, strict}
	if n.high == nil || b.rat().Cmp(n.high.rat()) < 0 || b.rat().Cmp(n.high.rat()) == 0 && strict {
		n.high = b
	}
}

// multiple makes the factor the least common multiple of itself and another.
func (n *numberFacts) multiple(v *jsonValue) error {
	d, _ := parseDecimal(v.text)
	f := d.rat()
	if n.factor != nil {
		// a/b and c/d in lowest terms have the least common multiple lcm(a, c) / gcd(b, d).
		a, c := n.factor.Num(), f.Num()
		gcd := new(big.Int).GCD(nil, nil, a, c)
		num := new(big.Int).Mul(a, new(big.Int).Quo(c, gcd))
		f = new(big.Rat).SetFrac(num, new(big.Int).GCD(nil, nil, n.factor.Denom(), f.Denom()))
	}
	n.factor, n.factorAt = f, v
	return nil
}

// admit reports whether a listed number satisfies the constraints.
func (n *numberFacts) admit(v *jsonValue, types jsonTypes) (bool, error) {
	d, ok := parseDecimal(v.text)
	if !ok {
		return false, errAt(v, "the number has more than %d digits", maxDigits)
	}
	r := d.rat()
	switch {
	case types&typeNumber == 0 && (types&typeInteger == 0 || !r.IsInt()):
		return false, nil
	case n.low != nil && (r.Cmp(n.low.rat()) < 0 || r.Cmp(n.low.rat()) == 0 && n.low.strict):
		return false, nil
	case n.high != nil && (r.Cmp(n.high.rat()) > 0 || r.Cmp(n.high.rat()) == 0 && n.high.strict):
		return false, nil
	case n.factor != nil && !new(big.Rat).Quo(r, n.factor).IsInt():
		return false, nil
	case n.fraction && r.IsInt():
		return false, nil
	}
	return true, nil
}

// number is the language of the numbers that satisfy f.
func (c *compiler) number(f *facts) (syntax.Expr, error) {
	n := &f.numbers
	fractions := f.types&typeNumber != 0
	switch {
	case n.fraction && !fractions:
		return syntax.Alt{}, nil
	case n.low == nil && n.high == nil && n.factor == nil && !n.fraction:
		if fractions {
			return c.shared("a number", jsonAnyNumber), nil
		}
		a := digitAutomaton{}
		a.exact(n)
		g, _ := a.graph()
		return c.shared("an integer", g), nil
	}
	a := digitAutomaton{low: n.low, high: n.high, fractions: fractions, fraction: n.fraction}
	if !fractions && n.factor == nil {
		a.exact(n)
	}
	if n.factor != nil && !a.setFactor(n.factor) {
		return nil, c.cannot(n.factorAt, "the multiples of %s take more than %d states", n.factor.RatString(), dfa.MaxRuneStates)
	}
	g, ok := a.graph()
	if !ok {
		at := n.factorAt
		if at == nil {
			at = f.parts[0].jsonValue
		}
		return nil, c.cannot(at, "the bounds of the number take more than %d states", dfa.MaxRuneStates)
	}
	return g, nil
}

// largestExact is the largest integer up to which all are exact as the numbers of JavaScript and most readers of JSON, 2^53 - 1.
const largestExact = "9007199254740991"

// exact bounds integers that have no bound on a side so that readers of JSON do not round them. Where the other bound lies beyond,
// that side stays open.
func (a *digitAutomaton) exact(n *numberFacts) {
	least, most := &bound{decimal: decimal{negative: true, whole: largestExact}}, &bound{decimal: decimal{whole: largestExact}}
	if n.low == nil && (n.high == nil || n.high.rat().Cmp(least.rat()) >= 0) {
		a.low = least
	}
	if n.high == nil && (n.low == nil || n.low.rat().Cmp(most.rat()) <= 0) {
		a.high = most
	}
}

// setFactor takes a factor as a whole number of units of 10^-places; ok is false if it is too large.
func (a *digitAutomaton) setFactor(f *big.Rat) (ok bool) {
	scaled := new(big.Rat).Set(f)
	for !scaled.IsInt() {
		scaled.Mul(scaled, big.NewRat(10, 1))
		if a.places++; a.places > 30 {
			return false
		}
	}
	if !scaled.Num().IsInt64() || scaled.Num().Int64() > dfa.MaxRuneStates {
		return false
	}
	a.factor = int(scaled.Num().Int64())
	return true
}
