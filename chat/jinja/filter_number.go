package jinja

import (
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

// maxIntDigits is how long a text int() reads: Python's sys.int_info.default_max_str_digits.
const maxIntDigits = 4300

func filterInt(_ *render, value any, a args) (any, error) {
	got, err := a.bind("int", 0, "default", "base")
	if err != nil {
		return nil, err
	}
	if got[0] == missing {
		got[0] = int64(0)
	}
	if got[1] != missing {
		return nil, failKind(Unsupported, "Ridge's Jinja does not have the base of the filter 'int'")
	}
	switch v := value.(type) {
	case bool, int64, *big.Int:
		i, _ := bigInt(v)
		return normalInt(i), nil
	case float64:
		if math.IsInf(v, 0) {
			return nil, fail("cannot convert float infinity to integer")
		}
		return truncated(v, got[0]), nil
	case *undefined:
		return nil, v.fail()
	}
	s, _ := text(value)
	return parseInt(s, got[0]), nil
}

// truncated is int(f), or otherwise for what is not a finite number.
func truncated(f float64, otherwise any) any {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return otherwise
	}
	i, _ := big.NewFloat(math.Trunc(f)).Int(nil)
	return normalInt(i)
}

// decimalNumber is what int() and float() read in base 10, but for inf and nan: a sign, underscores between digits, a point, an exponent.
var decimalNumber = regexp.MustCompile(`^[+-]?(\d+(_\d+)*)?(\.(\d+(_\d+)*)?)?([eE][+-]?\d+(_\d+)*)?$`)

// parseInt is int(s), or else int(float(s)), or else otherwise.
func parseInt(s string, otherwise any) any {
	s = strings.TrimFunc(s, isSpace)
	if !decimalNumber.MatchString(s) {
		return otherwise
	}
	s = strings.ReplaceAll(s, "_", "")
	if len(s) <= maxIntDigits {
		if i, ok := new(big.Int).SetString(s, 10); ok {
			return normalInt(i)
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return otherwise
	}
	return truncated(f, otherwise)
}
