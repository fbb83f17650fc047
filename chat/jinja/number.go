package jinja

import (
	"math"
	"math/big"
)

// normalInt gives an integer in its normal form: int64 when it fits.
func normalInt(i *big.Int) any {
	if i.IsInt64() {
		return i.Int64()
	}
	return i
}

// smallInt gives v as an int64 when it is an int, or a bool, that fits.
func smallInt(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

// bigInt gives v as a big.Int, which must not be changed, when it is an int or a bool.
func bigInt(v any) (*big.Int, bool) {
	if i, ok := smallInt(v); ok {
		return big.NewInt(i), true
	}
	i, ok := v.(*big.Int)
	return i, ok
}

// float gives v as a float64 when it is a number.
func float(v any) (float64, bool, error) {
	if f, ok := v.(float64); ok {
		return f, true, nil
	}
	if i, ok := smallInt(v); ok {
		return float64(i), true, nil
	}
	if i, ok := v.(*big.Int); ok {
		f, _ := new(big.Float).SetInt(i).Float64()
		if math.IsInf(f, 0) {
			return 0, true, fail("int too large to convert to float")
		}
		return f, true, nil
	}
	return 0, false, nil
}

func isNumber(v any) bool {
	switch v.(type) {
	case int64, bool, float64, *big.Int:
		return true
	}
	return false
}

// signed is +v or -v.
func signed(minus bool, v any) (any, error) {
	if f, ok := v.(float64); ok {
		if minus {
			f = -f
		}
		return f, nil
	}
	i, ok := bigInt(v)
	if !ok {
		if u, undef := v.(*undefined); undef {
			return nil, u.fail()
		}
		return nil, fail("bad operand type for a unary sign: '%s'", typeName(v))
	}
	if minus {
		i = new(big.Int).Neg(i)
	}
	return normalInt(i), nil
}

// arithmetic computes a op b for two numbers.
func arithmetic(op string, a, b any) (any, error) {
	_, aFloat := a.(float64)
	_, bFloat := b.(float64)
	if aFloat || bFloat {
		x, _, err := float(a)
		if err != nil {
			return nil, err
		}
		y, _, err := float(b)
		if err != nil {
			return nil, err
		}
		return floatArithmetic(op, x, y)
	}
	x, xSmall := smallInt(a)
	y, ySmall := smallInt(b)
	if xSmall && ySmall {
		if v, ok := smallArithmetic(op, x, y); ok {
			return v, nil
		}
	}
	i, _ := bigInt(a)
	j, _ := bigInt(b)
	return bigArithmetic(op, i, j)
}

// smallArithmetic handles what stays within int64 and divides by nothing odd.
func smallArithmetic(op string, x, y int64) (any, bool) {
	switch op {
	case "+":
		s := x + y
		return s, (x^s)&(y^s) >= 0
	case "-":
		s := x - y
		return s, (x^y)&(x^s) >= 0
	case "*":
		if x > -1<<31 && x < 1<<31 && y > -1<<31 && y < 1<<31 {
			return x * y, true
		}
	case "//", "%":
		if y <= 0 || x == math.MinInt64 {
			return nil, false
		}
		q, m := x/y, x%y
		if m < 0 {
			q, m = q-1, m+y
		}
		if op == "%" {
			return m, true
		}
		return q, true
	}
	return nil, false
}

func bigArithmetic(op string, x, y *big.Int) (any, error) {
	z := new(big.Int)
	switch op {
	case "+":
		z.Add(x, y)
	case "-":
		z.Sub(x, y)
	case "*":
		if x.BitLen()+y.BitLen() > maxIntBits {
			return nil, tooBig()
		}
		z.Mul(x, y)
	case "**":
		return bigPower(x, y)
	default:
		if y.Sign() == 0 {
			if op == "/" {
				return nil, fail("division by zero")
			}
			return nil, fail("integer division or modulo by zero")
		}
		if op == "/" {
			f, _ := new(big.Rat).SetFrac(x, y).Float64()
			if math.IsInf(f, 0) {
				return nil, fail("integer division result too large for a float")
			}
			return f, nil
		}
		// Floor division: the remainder has the divisor's sign.
		m := new(big.Int)
		z.QuoRem(x, y, m)
		if m.Sign() != 0 && m.Sign() != y.Sign() {
			z.Sub(z, big.NewInt(1))
			m.Add(m, y)
		}
		if op == "%" {
			z = m
		}
	}
	if z.BitLen() > maxIntBits {
		return nil, tooBig()
	}
	return normalInt(z), nil
}

func tooBig() error { return failKind(Limit, "an integer of more than %d bits is too big", maxIntBits) }

func bigPower(x, y *big.Int) (any, error) {
	if y.Sign() < 0 {
		f, _, err := float(x)
		g, _, err2 := float(y)
		if err != nil || err2 != nil {
			return nil, tooBig()
		}
		return floatArithmetic("**", f, g)
	}
	if x.BitLen() > 1 && (!y.IsInt64() || y.Int64() > int64(maxIntBits/(x.BitLen()-1))) {
		return nil, tooBig()
	}
	if x.BitLen() <= 1 { // 0, 1 and -1 may be raised to anything
		if y.Sign() == 0 || x.Sign() < 0 && y.Bit(0) == 0 {
			return int64(1), nil
		}
		return x.Int64(), nil
	}
	return normalInt(new(big.Int).Exp(x, y, nil)), nil
}

func floatArithmetic(op string, x, y float64) (any, error) {
	switch op {
	case "+":
		return x + y, nil
	case "-":
		return x - y, nil
	case "*":
		return x * y, nil
	case "**":
		return floatPower(x, y)
	}
	if y == 0 {
		return nil, fail("division by zero")
	}
	if op == "/" {
		return x / y, nil
	}
	m := math.Mod(x, y)
	q := (x - m) / y
	switch {
	case m == 0:
		m = math.Copysign(0, y)
	case (y < 0) != (m < 0):
		m += y
		q--
	}
	if op == "%" {
		return m, nil
	}
	if q == 0 {
		return math.Copysign(0, x/y), nil
	}
	if floor := math.Floor(q); q-floor <= 0.5 {
		return floor, nil
	}
	return math.Ceil(q), nil
}

func floatPower(x, y float64) (any, error) {
	switch {
	case x == 0 && y < 0:
		return nil, fail("0.0 cannot be raised to a negative power")
	case x < 0 && y != math.Trunc(y) && !math.IsInf(x, 0):
		return nil, fail("a negative number raised to a fraction is a complex number, which is not supported")
	}
	f := math.Pow(x, y)
	if math.IsInf(f, 0) && !math.IsInf(x, 0) && !math.IsInf(y, 0) {
		return nil, fail("the result of ** is too large for a float")
	}
	return f, nil
}
