package jinja

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

func filterAbs(_ *render, value any, a args) (any, error) {
	if _, err := a.bind("abs", 0); err != nil {
		return nil, err
	}
	if f, ok := value.(float64); ok {
		return math.Abs(f), nil
	}
	i, ok := bigInt(value)
	if u, undef := value.(*undefined); undef {
		return nil, u.fail()
	}
	if !ok {
		return nil, fail("bad operand type for abs(): '%s'", typeName(value))
	}
	return normalInt(new(big.Int).Abs(i)), nil
}

func filterInt(r *render, value any, a args) (any, error) {
	got, err := a.bind("int", 0, "default", "base")
	if err != nil {
		return nil, err
	}
	if got[0] == missing {
		got[0] = int64(0)
	}
	switch v := value.(type) {
	case *undefined:
		return nil, v.fail()
	case float64:
		if math.IsNaN(v) {
			return got[0], nil
		}
		return truncateFloat(v)
	case bool, int64, *big.Int:
		i, _ := bigInt(v)
		return normalInt(i), nil
	}
	s, ok := text(value)
	if !ok {
		return got[0], nil
	}
	base, err := integerOr(got[1], 10)
	if err != nil {
		return nil, err
	}
	if i, ok := parseInt(s, base); ok {
		return i, nil
	}
	f, ok := parseFloat(s)
	if !ok || math.IsNaN(f) || math.IsInf(f, 0) {
		return got[0], nil
	}
	return truncateFloat(f)
}

func truncateFloat(f float64) (any, error) {
	if math.IsInf(f, 0) {
		return nil, fail("cannot convert float infinity to integer")
	}
	i, _ := big.NewFloat(math.Trunc(f)).Int(nil)
	return normalInt(i), nil
}

// parseInt is int(s, base): white space around, a sign, underscores between digits, and the prefix of the base.
func parseInt(s string, base int) (any, bool) {
	s = strings.TrimFunc(s, isSpace)
	digits := strings.TrimLeft(s, "+-")
	if len(s)-len(digits) > 1 || len(s) > 4300 || base != 0 && (base < 2 || base > 36) {
		return nil, false
	}
	if len(digits) > 2 && digits[0] == '0' {
		if b := map[byte]int{'b': 2, 'o': 8, 'x': 16}[digits[1]|0x20]; b != 0 && (base == b || base == 0) {
			base = b
			digits = strings.TrimPrefix(digits[2:], "_")
		}
	}
	if base == 0 {
		if base = 10; len(digits) > 1 && digits[0] == '0' && strings.Trim(digits, "0_") != "" {
			return nil, false
		}
	}
	if digits == "" || digits[0] == '_' || strings.HasSuffix(digits, "_") || strings.Contains(digits, "__") || strings.ContainsAny(digits, "+-") {
		return nil, false
	}
	i, ok := new(big.Int).SetString(strings.ReplaceAll(digits, "_", ""), base)
	if !ok {
		return nil, false
	}
	if s[0] == '-' {
		i.Neg(i)
	}
	return normalInt(i), true
}

// parseFloat is float(s).
func parseFloat(s string) (float64, bool) {
	s = strings.TrimFunc(s, isSpace)
	body := strings.ToLower(strings.TrimLeft(s, "+-"))
	switch body {
	case "inf", "infinity", "nan":
	default:
		if body == "" || strings.ContainsAny(body, "xpin") || strings.HasPrefix(body, "_") || strings.HasSuffix(body, "_") {
			return 0, false
		}
		for i := range len(body) {
			if body[i] == '_' && (!isDecimal(body[i-1]) || !isDecimal(body[i+1])) {
				return 0, false
			}
		}
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	return f, err == nil || errors.Is(err, strconv.ErrRange)
}

func filterFloat(_ *render, value any, a args) (any, error) {
	got, err := a.bind("float", 0, "default")
	if err != nil {
		return nil, err
	}
	if got[0] == missing {
		got[0] = 0.0
	}
	if u, ok := value.(*undefined); ok {
		return nil, u.fail()
	}
	if s, ok := text(value); ok {
		if f, ok := parseFloat(s); ok {
			return f, nil
		}
		return got[0], nil
	}
	f, ok, err := float(value)
	if !ok {
		return got[0], nil
	}
	return f, err
}

func filterRound(_ *render, value any, a args) (any, error) {
	got, err := a.bind("round", 0, "precision", "method")
	if err != nil {
		return nil, err
	}
	precision, err := integerOr(got[0], 0)
	if err != nil {
		return nil, err
	}
	how := "common"
	if got[1] != missing {
		how, _ = text(got[1])
	}
	if u, ok := value.(*undefined); ok {
		return nil, u.fail()
	}
	if !isNumber(value) {
		return nil, fail("type %s doesn't define __round__ method", typeName(value))
	}
	switch how {
	case "common":
		return round(value, precision)
	case "ceil", "floor":
	default:
		return nil, fail("method must be common, ceil or floor")
	}
	scale, err := arithmetic("**", int64(10), int64(precision))
	if err != nil {
		return nil, err
	}
	scaled, err := arithmetic("*", value, scale)
	if err != nil {
		return nil, err
	}
	if f, ok := scaled.(float64); ok {
		if math.IsNaN(f) {
			return nil, fail("cannot convert float NaN to integer")
		}
		if f = math.Floor(f); how == "ceil" {
			f = math.Ceil(scaled.(float64))
		}
		if scaled, err = truncateFloat(f); err != nil {
			return nil, err
		}
	}
	return arithmetic("/", scaled, scale)
}

// round is round(value, digits): half to even, exactly on the number's binary value.
func round(value any, digits int) (any, error) {
	f, ok := value.(float64)
	if !ok {
		i, _ := bigInt(value)
		if digits >= 0 {
			return normalInt(i), nil
		}
		if -digits > maxIntBits/3 {
			return int64(0), nil
		}
		unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-digits)), nil)
		q, m := new(big.Int).DivMod(i, unit, new(big.Int))
		if c := new(big.Int).Lsh(m, 1).Cmp(unit); c > 0 || c == 0 && q.Bit(0) == 1 {
			q.Add(q, big.NewInt(1))
		}
		return normalInt(q.Mul(q, unit)), nil
	}
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0) || digits > 323:
		return f, nil
	case digits < -308:
		return math.Copysign(0, f), nil
	case digits >= 0:
		f, _ = strconv.ParseFloat(strconv.FormatFloat(f, 'f', digits, 64), 64)
		return f, nil
	}
	// Before the point: the exact value in units of 10^-digits, rounded half to even.
	unit := new(big.Rat).SetFrac(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-digits)), nil), big.NewInt(1))
	scaled := new(big.Rat).Quo(new(big.Rat).SetFloat64(f), unit)
	out, err := strconv.ParseFloat(fmt.Sprintf("%se%d", roundRat(scaled), -digits), 64)
	if err != nil {
		return nil, fail("rounded value too large to represent")
	}
	return out, nil
}

// roundRat is the nearest integer, a half going to the even one.
func roundRat(x *big.Rat) *big.Int {
	twice := new(big.Int).Lsh(x.Num(), 1)
	q, m := new(big.Int).DivMod(x.Num(), x.Denom(), new(big.Int))
	twice.Lsh(m, 1)
	if c := twice.Cmp(x.Denom()); c > 0 || c == 0 && q.Bit(0) == 1 {
		q.Add(q, big.NewInt(1))
	}
	return q
}
