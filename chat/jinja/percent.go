package jinja

import (
	"math"
	"math/big"
	"strings"
)

// percent is format % values: printf-style formatting. In Markup, what is inserted is escaped.
func (r *render) percent(format string, markup bool, values any) (any, error) {
	p := &percentFormatter{r: r, markup: markup, args: []any{values}}
	switch v := values.(type) {
	case *Tuple:
		p.args = v.items
	case *Map:
		p.mapping = v
	}
	if err := p.run(format); err != nil {
		return nil, err
	}
	switch values.(type) {
	case *Map, *List, *rangeValue, *undefined: // what has items may pass for a mapping, of which nothing need be used
	default:
		if p.next < len(p.args) {
			return nil, fail("not all arguments converted during string formatting")
		}
	}
	if markup {
		return Markup(p.b.String()), nil
	}
	return p.b.String(), nil
}

type percentFormatter struct {
	r       *render
	markup  bool
	args    []any
	next    int
	mapping *Map
	b       strings.Builder
}

func (p *percentFormatter) put(s string) error {
	p.b.WriteString(s)
	return p.r.grow(len(s))
}

func (p *percentFormatter) arg() (any, error) {
	if p.next >= len(p.args) {
		return nil, fail("not enough arguments for format string")
	}
	p.next++
	return p.args[p.next-1], nil
}

// run formats: %[(key)][flags][width][.precision][length]type.
func (p *percentFormatter) run(s string) error {
	for {
		i := strings.IndexByte(s, '%')
		if i < 0 {
			return p.put(s)
		}
		if err := p.put(s[:i]); err != nil {
			return err
		}
		s = s[i+1:]
		var keyed any = missing
		if strings.HasPrefix(s, "(") {
			end, err := p.key(s, &keyed)
			if err != nil {
				return err
			}
			s = s[end:]
		}
		f := formatSpec{fill: " ", align: '>', precision: -1}
		rest, err := p.flags(s, &f)
		if err != nil {
			return err
		}
		if rest == "" {
			return fail("incomplete format")
		}
		f.kind, s = rest[0], rest[1:]
		if f.kind == '%' {
			if err := p.put("%"); err != nil {
				return err
			}
			continue
		}
		v := keyed
		if v == missing {
			if v, err = p.arg(); err != nil {
				return err
			}
		}
		text, err := p.convert(f, v)
		if err != nil {
			return err
		}
		if err := p.put(text); err != nil {
			return err
		}
	}
}

// key reads "(key)" and looks the key up.
func (p *percentFormatter) key(s string, v *any) (end int, err error) {
	depth := 0
	for i := range len(s) {
		switch s[i] {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth > 0 {
			continue
		}
		if p.mapping == nil {
			return 0, fail("format requires a mapping")
		}
		value, ok := p.mapping.Get(s[1:i])
		if !ok {
			return 0, fail("the format's key %s is not in the mapping", quote(s[1:i]))
		}
		*v = value
		return i + 1, nil
	}
	return 0, fail("incomplete format key")
}

// flags reads flags, width, precision and the length modifier, which means nothing.
func (p *percentFormatter) flags(s string, f *formatSpec) (string, error) {
	for s != "" && strings.IndexByte("-+ #0", s[0]) >= 0 {
		switch s[0] {
		case '-':
			f.align = '<'
		case '+':
			f.sign = '+'
		case ' ':
			if f.sign == 0 {
				f.sign = ' '
			}
		case '#':
			f.alternate = true
		case '0':
			f.zero = true
		}
		s = s[1:]
	}
	s, width, given, err := p.number(s)
	if err != nil {
		return "", err
	}
	if given {
		if width < 0 {
			f.align, width = '<', -width
		}
		f.width = width
	}
	if strings.HasPrefix(s, ".") {
		s, f.precision, given, err = p.number(s[1:])
		if !given || f.precision < 0 {
			f.precision = 0
		}
	}
	if s != "" && strings.IndexByte("hlL", s[0]) >= 0 {
		s = s[1:]
	}
	return s, err
}

// number reads digits, or takes a value for "*".
func (p *percentFormatter) number(s string) (rest string, n int, given bool, err error) {
	if strings.HasPrefix(s, "*") {
		v, err := p.arg()
		if err != nil {
			return "", 0, false, err
		}
		i, ok := smallInt(v)
		if !ok {
			return "", 0, false, fail("* wants int")
		}
		if i > maxWidth || i < -maxWidth {
			return "", 0, false, fail("a width or precision in a format is too large")
		}
		return s[1:], int(i), true, nil
	}
	for s != "" && isDecimal(s[0]) {
		if n = 10*n + int(s[0]-'0'); n > maxWidth {
			return "", 0, false, fail("a width or precision in a format is too large")
		}
		s, given = s[1:], true
	}
	return s, n, given, nil
}

func (p *percentFormatter) convert(f formatSpec, v any) (string, error) {
	r := p.r
	var s string
	var err error
	switch f.kind {
	case 's', 'r', 'a':
		if f.kind == 's' {
			s, err = r.str(v)
		} else if s, err = r.repr(v); f.kind == 'a' {
			s = asciiOnly(s)
		}
		if p.markup && !isMarkup(v) {
			s = escapeHTML(s)
		}
		if err == nil && f.precision >= 0 {
			s = runeSlice(s, 0, f.precision)
		}
		if err != nil {
			return "", err
		}
		return r.align(f, "", s)
	case 'c':
		if s, ok := text(v); ok && runeCount(s) == 1 {
			return r.align(f, "", s)
		}
		if i, ok := smallInt(v); ok && i >= 0 && i <= 0x10ffff {
			return r.align(f, "", string(rune(i)))
		}
		return "", fail("%%c requires int or char")
	case 'd', 'i', 'u', 'o', 'x', 'X':
		return p.integer(f, v)
	case 'e', 'E', 'f', 'F', 'g', 'G':
		if u, ok := v.(*undefined); ok {
			return "", u.fail()
		}
		x, ok, err := float(v)
		if err != nil {
			return "", err
		}
		if !ok {
			return "", fail("must be real number, not %s", typeName(v))
		}
		f.zeroFill(math.IsInf(x, 0) || math.IsNaN(x))
		return r.formatFloat(f, x)
	}
	return "", fail("unsupported format character '%c'", f.kind)
}

// zeroFill makes the flag 0 pad between the sign and the digits, unless the field is left-aligned.
func (f *formatSpec) zeroFill(never bool) {
	if f.zero && f.align != '<' && !never {
		f.fill, f.align = "0", '='
	}
}

func (p *percentFormatter) integer(f formatSpec, v any) (string, error) {
	if x, ok := v.(float64); ok && strings.IndexByte("diu", f.kind) >= 0 {
		if math.IsInf(x, 0) || math.IsNaN(x) {
			return "", fail("cannot convert float %s to integer", floatRepr(x))
		}
		i, _ := big.NewFloat(math.Trunc(x)).Int(nil)
		v = normalInt(i)
	}
	i, ok := bigInt(v)
	if !ok {
		if u, undef := v.(*undefined); undef {
			return "", u.fail()
		}
		return "", fail("%%%c format: a number is required, not %s", f.kind, typeName(v))
	}
	base, prefix := 10, ""
	switch f.kind {
	case 'o':
		base, prefix = 8, "0o"
	case 'x', 'X':
		base, prefix = 16, "0x"
	}
	digits := new(big.Int).Abs(i).Text(base)
	if f.precision > len(digits) {
		padded, err := p.r.pad("rjust", digits, f.precision, "0")
		if err != nil {
			return "", err
		}
		digits = padded
	}
	sign := f.signOf(i.Sign() < 0)
	if f.alternate {
		sign += prefix
	}
	if f.kind == 'X' {
		digits, sign = strings.ToUpper(digits), strings.ToUpper(sign)
	}
	f.zeroFill(false)
	return p.r.align(f, sign, digits)
}

// asciiOnly escapes what is not ASCII in a repr.
func asciiOnly(s string) string {
	var b strings.Builder
	for _, c := range s {
		if c >= 0x80 {
			b.WriteByte('\\')
		}
		b.WriteString(asciiEscape(c))
	}
	return b.String()
}
