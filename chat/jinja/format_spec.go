package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// formatSpec is a parsed format specification: [[fill]align][sign][z][#][0][width][grouping][.precision][type].
type formatSpec struct {
	fill      string
	align     byte // < > ^ = or 0
	sign      byte // + - space or 0
	noMinus   bool // z: a negative zero loses its sign
	alternate bool // #
	zero      bool
	width     int
	grouping  string // "," or "_" or ""
	precision int    // -1 when not given
	kind      byte   // the type, or 0
}

const maxWidth = 1 << 24 // of a field and of a precision

func parseFormatSpec(s string) (formatSpec, error) {
	f := formatSpec{precision: -1}
	isAlign := func(c byte) bool { return strings.IndexByte("<>^=", c) >= 0 }
	if _, n := utf8.DecodeRuneInString(s); len(s) > n && isAlign(s[n]) {
		f.fill, f.align, s = s[:n], s[n], s[n+1:]
	} else if s != "" && isAlign(s[0]) {
		f.align, s = s[0], s[1:]
	}
	take := func(set string) byte {
		if s == "" || strings.IndexByte(set, s[0]) < 0 {
			return 0
		}
		c := s[0]
		s = s[1:]
		return c
	}
	number := func() (int, error) {
		n := 0
		for s != "" && isDecimal(s[0]) {
			if n = 10*n + int(s[0]-'0'); n > maxWidth {
				return 0, fail("a width or precision in a format is too large")
			}
			s = s[1:]
		}
		return n, nil
	}
	f.sign = take("+- ")
	f.noMinus = take("z") != 0
	f.alternate = take("#") != 0
	if f.fill == "" {
		f.fill = " "
		if f.zero = take("0") != 0; f.zero {
			f.fill = "0"
		}
	}
	var err error
	if f.width, err = number(); err != nil {
		return f, err
	}
	if g := take(",_"); g != 0 {
		f.grouping = string(g)
	}
	if take(".") != 0 {
		if s == "" || !isDecimal(s[0]) {
			return f, fail("Format specifier missing precision")
		}
		if f.precision, err = number(); err != nil {
			return f, err
		}
	}
	if len(s) > 1 {
		return f, fail("Invalid format specifier")
	}
	if s != "" {
		f.kind = s[0]
	}
	return f, nil
}

// formatValue is format(v, spec).
func (r *render) formatValue(v any, spec string) (string, error) {
	if spec == "" {
		return r.str(v)
	}
	switch v.(type) {
	case string, Markup, int64, *big.Int, float64, bool:
	case *undefined:
		return "", fail("unsupported format string passed to Undefined.__format__")
	default:
		return "", fail("unsupported format string passed to %s.__format__", typeName(v))
	}
	f, err := parseFormatSpec(spec)
	if err != nil {
		return "", err
	}
	if s, ok := text(v); ok {
		return r.formatText(f, s)
	}
	unknown := fail("Unknown format code '%c' for object of type '%s'", f.kind, typeName(v))
	if f.kind == 'n' { // as d or g: the locale is C
		f.kind = 'd'
		if _, isFloat := v.(float64); isFloat {
			f.kind = 'g'
		}
	}
	i, isInt := bigInt(v)
	switch {
	case isInt && (f.kind == 0 || strings.IndexByte("bcdoxX", f.kind) >= 0):
		return r.formatInt(f, i)
	case f.kind != 0 && strings.IndexByte("eEfFgG%", f.kind) < 0:
		return "", unknown
	}
	x, _, err := float(v)
	if err != nil {
		return "", err
	}
	return r.formatFloat(f, x)
}

func (r *render) formatText(f formatSpec, s string) (string, error) {
	switch {
	case f.kind != 0 && f.kind != 's':
		return "", fail("Unknown format code '%c' for object of type 'str'", f.kind)
	case f.sign != 0 || f.alternate || f.noMinus || f.grouping != "":
		return "", fail("the format of a str allows no sign, '#', 'z' or grouping")
	case f.align == '=':
		return "", fail("'=' alignment not allowed in string format specifier")
	}
	if f.precision >= 0 {
		s = runeSlice(s, 0, f.precision)
	}
	if f.align == 0 {
		f.align = '<'
	}
	return r.align(f, "", s)
}

// numeric gives the alignment of a number when none was asked for.
func (f *formatSpec) numeric() {
	if f.align == 0 {
		f.align = '>'
		if f.zero {
			f.align = '='
		}
	}
}

// align pads to the width; a sign is separate, so that "=" can pad between it and the digits.
func (r *render) align(f formatSpec, sign, s string) (string, error) {
	if f.align == '=' {
		padded, err := r.pad("rjust", s, f.width-len(sign), f.fill)
		return sign + padded, err
	}
	s = sign + s
	n := max(f.width-runeCount(s), 0)
	left := 0
	switch f.align {
	case '>':
		left = n
	case '^':
		left = n / 2
	}
	if err := r.growTimes(len(f.fill), n); err != nil {
		return "", err
	}
	return strings.Repeat(f.fill, left) + s + strings.Repeat(f.fill, n-left), nil
}

func (f formatSpec) signOf(negative bool) string {
	switch {
	case negative:
		return "-"
	case f.sign == '+' || f.sign == ' ':
		return string(f.sign)
	}
	return ""
}

func (r *render) formatInt(f formatSpec, i *big.Int) (string, error) {
	if f.precision >= 0 {
		return "", fail("Precision not allowed in integer format specifier")
	}
	f.numeric()
	if f.kind == 'c' {
		if !i.IsInt64() || i.Int64() < 0 || i.Int64() > utf8.MaxRune {
			return "", fail("%%c arg not in range(0x110000)")
		}
		return r.align(f, "", string(rune(i.Int64())))
	}
	base, group, prefix := 10, 3, ""
	switch f.kind {
	case 'b':
		base, group, prefix = 2, 4, "0b"
	case 'o':
		base, group, prefix = 8, 4, "0o"
	case 'x', 'X':
		base, group, prefix = 16, 4, "0x"
	}
	if base != 10 && f.grouping == "," {
		return "", fail("Cannot specify ',' with '%c'.", f.kind)
	}
	digits := new(big.Int).Abs(i).Text(base)
	sign := f.signOf(i.Sign() < 0)
	if f.alternate {
		sign += prefix
	}
	if f.kind == 'X' {
		digits, sign = strings.ToUpper(digits), strings.ToUpper(sign)
	}
	return r.align(f, sign, f.group(digits, group, len(sign)))
}

// group puts the grouping character between digits. When zeros fill the width, they are grouped too.
func (f formatSpec) group(digits string, size, signLen int) string {
	if f.grouping == "" {
		return digits
	}
	if f.zero && f.align == '=' {
		for len(digits)+(len(digits)-1)/size < f.width-signLen {
			digits = "0" + digits
		}
	}
	var parts []string
	for len(digits) > size {
		parts = append(parts, digits[len(digits)-size:])
		digits = digits[:len(digits)-size]
	}
	return strings.Join(reverse(append(parts, digits)), f.grouping)
}

func (r *render) formatFloat(f formatSpec, x float64) (string, error) {
	f.numeric()
	if err := r.grow(max(f.precision, 0)); err != nil {
		return "", err
	}
	if f.kind == '%' {
		x *= 100
	}
	negative := math.Signbit(x) && !math.IsNaN(x)
	s := floatDigits(math.Abs(x), f.kind, f.precision, f.alternate)
	if negative && f.noMinus && strings.Trim(s, "0.") == "" {
		negative = false
	}
	if f.kind == '%' {
		s += "%"
	}
	sign := f.signOf(negative)
	whole := strings.IndexFunc(s, func(c rune) bool { return c < '0' || c > '9' })
	if whole < 0 {
		whole = len(s)
	}
	if whole > 0 && f.grouping != "" {
		rest := s[whole:]
		s = f.group(s[:whole], 3, len(sign)+len(rest)) + rest
	}
	return r.align(f, sign, s)
}

// floatDigits writes a number that is not negative in the manner of e, f, g, % or of no type at all.
func floatDigits(x float64, kind byte, precision int, alternate bool) string {
	upperCase := kind == 'E' || kind == 'F' || kind == 'G'
	lowerKind := kind
	if upperCase {
		lowerKind += 'a' - 'A'
	}
	var s string
	switch {
	case math.IsInf(x, 0):
		s = "inf"
	case math.IsNaN(x):
		s = "nan"
	case kind == 0 && precision < 0:
		s = floatRepr(x)
	case kind == 0:
		s = general(x, precision, alternate, true)
	case lowerKind == 'g':
		if precision < 0 {
			precision = 6
		}
		s = general(x, precision, alternate, false)
	default:
		if precision < 0 {
			precision = 6
		}
		verb := lowerKind
		if kind == '%' {
			verb = 'f'
		}
		s = strconv.FormatFloat(x, verb, precision, 64)
		if alternate && precision == 0 {
			if e := strings.IndexByte(s, 'e'); e >= 0 {
				s = s[:e] + "." + s[e:]
			} else {
				s += "."
			}
		}
	}
	if upperCase {
		s = strings.ToUpper(s)
	}
	return s
}

// general is the g format: so many significant digits, with an exponent when the number is very small or does not fit
// them. With point, as str does, a whole number keeps ".0" and needs one digit more before it takes an exponent.
func general(x float64, precision int, keepZeros, point bool) string {
	precision = max(precision, 1)
	e := strconv.FormatFloat(x, 'e', precision-1, 64)
	exp, _ := strconv.Atoi(e[strings.IndexByte(e, 'e')+1:])
	limit := precision
	if point && precision > 1 {
		limit = precision - 1
	}
	trim := func(s string) string {
		if keepZeros || !strings.Contains(s, ".") {
			return s
		}
		return strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	if exp < -4 || exp >= limit {
		i := strings.IndexByte(e, 'e')
		return trim(e[:i]) + e[i:]
	}
	s := trim(strconv.FormatFloat(x, 'f', precision-1-exp, 64))
	if point && !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
