package schema

import (
	"math/big"
	"strconv"
	"strings"
)

// decimal is a number by its digits: no zeros in front of whole but a single one, none at the end of fraction.
type decimal struct {
	negative        bool
	whole, fraction string
}

// maxDigits is how many digits a bound may have, written without an exponent.
const maxDigits = 400

// parseDecimal reads a number as JSON writes it. ok is false if it has too many digits.
func parseDecimal(text string) (d decimal, ok bool) {
	digits, negative := strings.CutPrefix(text, "-")
	exponent := 0
	if at := strings.IndexAny(digits, "eE"); at >= 0 {
		e, err := strconv.Atoi(digits[at+1:])
		if err != nil || e > maxDigits || e < -maxDigits {
			return d, false
		}
		exponent, digits = e, digits[:at]
	}
	whole, fraction, _ := strings.Cut(digits, ".")
	if len(whole)+len(fraction) > maxDigits {
		return d, false
	}
	point := len(whole) + exponent // among the digits
	all := whole + fraction
	all = strings.Repeat("0", max(-point, 0)) + all
	point = max(point, 0)
	all += strings.Repeat("0", max(point-len(all), 0))
	d.whole = strings.TrimLeft(all[:point], "0")
	d.fraction = strings.TrimRight(all[point:], "0")
	if d.whole == "" {
		d.whole = "0"
	}
	d.negative = negative && !d.isZero()
	return d, true
}

func (d decimal) isZero() bool { return d.whole == "0" && d.fraction == "" }

func (d decimal) rat() *big.Rat {
	r, _ := new(big.Rat).SetString(d.whole + "." + d.fraction + "0")
	if d.negative {
		r.Neg(r)
	}
	return r
}
