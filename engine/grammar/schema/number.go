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
}

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
	}
	return true, nil
}

// number is the language of the numbers that satisfy f.
func (c *compiler) number(f *facts) (syntax.Expr, error) {
	n := &f.numbers
	fractions := f.types&typeNumber != 0
	if n.low == nil && n.high == nil && n.factor == nil {
		if fractions {
			return c.shared("a number", jsonAnyNumber), nil
		}
		return c.shared("an integer", jsonInteger), nil
	}
	a := digitAutomaton{low: n.low, high: n.high, fractions: fractions}
	if n.factor != nil && !a.setFactor(n.factor) {
		return nil, errAt(n.factorAt, "the multiples of %s take more than %d states", n.factor.RatString(), dfa.MaxRuneStates)
	}
	g, ok := a.graph()
	if !ok {
		at := n.factorAt
		if at == nil {
			at = f.parts[0].jsonValue
		}
		return nil, errAt(at, "the bounds of the number take more than %d states", dfa.MaxRuneStates)
	}
	return g, nil
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
