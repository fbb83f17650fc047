package jinja

import (
	"strconv"
	"strings"
)

// strFormat is str.format as the sandbox has it: Python's string.Formatter, whose attribute and item look-ups are the
// template's own.
func strFormat(r *render, recv any, a args) (any, error) {
	s, _ := text(recv)
	f := &formatter{r: r, args: a.pos, named: NewMap(), markup: isMarkup(recv)}
	for _, k := range a.kw {
		f.named.Set(k.name, k.value)
	}
	s, err := f.format(s, 2)
	return like(recv, s), err
}

func strFormatMap(r *render, recv any, a args) (any, error) {
	got, err := a.bind("format_map", 1, "mapping/")
	if err != nil {
		return nil, err
	}
	m, ok := got[0].(*Map)
	if !ok {
		return nil, fail("format_map() needs a mapping, not %s", typeName(got[0]))
	}
	s, _ := text(recv)
	s, err = (&formatter{r: r, named: m, markup: isMarkup(recv)}).format(s, 2)
	return like(recv, s), err
}

type formatter struct {
	r        *render
	args     []any
	named    *Map
	markup   bool
	auto     int  // the next number for {}
	numbered bool // {0} has been seen
}

// format replaces the fields of s; so many levels of fields may stand inside the specifications of fields.
func (f *formatter) format(s string, levels int) (string, error) {
	if levels < 0 {
		return "", fail("Max string recursion exceeded")
	}
	var b strings.Builder
	put := func(s string) error {
		b.WriteString(s)
		return f.r.grow(len(s))
	}
	for s != "" {
		i := strings.IndexAny(s, "{}")
		if i < 0 {
			return b.String() + s, f.r.grow(len(s))
		}
		if err := put(s[:i]); err != nil {
			return "", err
		}
		c := s[i]
		s = s[i+1:]
		if s != "" && s[0] == c {
			if err := put(string(c)); err != nil {
				return "", err
			}
			s = s[1:]
			continue
		}
		if c == '}' {
			return "", fail("Single '}' encountered in format string")
		}
		field, rest, err := cutField(s)
		if err != nil {
			return "", err
		}
		s = rest
		out, err := f.field(field, levels)
		if err != nil {
			return "", err
		}
		if err := put(out); err != nil {
			return "", err
		}
	}
	return b.String(), nil
}

// cutField cuts s behind the "}" that closes a field.
func cutField(s string) (field, rest string, err error) {
	depth, inBrackets := 1, false
	for i := range len(s) {
		switch c := s[i]; {
		case inBrackets:
			inBrackets = c != ']'
		case c == '[' && depth == 1 && !strings.ContainsAny(s[:i], ":!"):
			inBrackets = true
		case c == '{':
			depth++
		case c == '}':
			if depth--; depth == 0 {
				return s[:i], s[i+1:], nil
			}
		}
	}
	if s == "" {
		return "", "", fail("Single '{' encountered in format string")
	}
	return "", "", fail("expected '}' before end of string")
}

// field formats name[!conversion][:spec].
func (f *formatter) field(s string, levels int) (string, error) {
	name, spec, conversion := s, "", ""
	end := 0
	for inBrackets := false; end < len(s) && (inBrackets || s[end] != ':' && s[end] != '!'); end++ {
		inBrackets = s[end] == '[' || inBrackets && s[end] != ']'
	}
	if name = s[:end]; end < len(s) {
		spec = s[end+1:]
		if s[end] == '!' {
			conversion, spec, _ = strings.Cut(spec, ":")
			if len(conversion) != 1 {
				return "", fail("expected ':' after conversion specifier")
			}
		}
	}
	v, err := f.lookup(name)
	if err != nil {
		return "", err
	}
	switch conversion {
	case "":
	case "s":
		v, err = f.r.str(v)
	case "r":
		v, err = f.r.repr(v)
	case "a":
		var repr string
		repr, err = f.r.repr(v)
		v = asciiOnly(repr)
	default:
		return "", fail("Unknown conversion specifier '%s'", conversion)
	}
	if err != nil {
		return "", err
	}
	if spec, err = f.format(spec, levels-1); err != nil {
		return "", err
	}
	out, err := f.r.formatValue(v, spec)
	if f.markup && !isMarkup(v) {
		out = escapeHTML(out)
	}
	return out, err
}

// lookup finds the value of a field name such as 0, name, {} (numbered in order), 0.attr or name[key].
func (f *formatter) lookup(name string) (any, error) {
	end := strings.IndexAny(name, ".[")
	if end < 0 {
		end = len(name)
	}
	v, err := f.argument(name[:end])
	for s := name[end:]; err == nil && s != ""; {
		if s[0] == '[' {
			key, rest, ok := strings.Cut(s[1:], "]")
			if !ok || key == "" {
				return nil, fail("Missing ']' in format string")
			}
			if rest != "" && rest[0] != '.' && rest[0] != '[' {
				return nil, fail("Only '.' or '[' may follow ']' in format field specifier")
			}
			var k any = key
			if i, err := strconv.ParseInt(key, 10, 64); err == nil && isDecimal(key[0]) {
				k = i
			}
			v, err = f.r.item(v, k)
			s = rest
			continue
		}
		end := strings.IndexAny(s[1:], ".[") + 1
		if end == 0 {
			end = len(s)
		}
		if end == 1 {
			return nil, fail("Empty attribute in format string")
		}
		v, err = f.r.attr(v, s[1:end])
		s = s[end:]
	}
	return v, err
}

func (f *formatter) argument(name string) (any, error) {
	index := -1
	switch {
	case name == "":
		if f.numbered {
			return nil, fail("cannot switch from manual field specification to automatic field numbering")
		}
		index = f.auto
		f.auto++
	case isDecimal(name[0]):
		i, err := strconv.Atoi(name)
		if err != nil {
			break
		}
		if f.auto > 0 {
			return nil, fail("cannot switch from automatic field numbering to manual field specification")
		}
		f.numbered = true
		index = i
	}
	if index >= 0 {
		if index >= len(f.args) {
			return nil, fail("Replacement index %d out of range for positional args tuple", index)
		}
		return f.args[index], nil
	}
	v, ok := f.named.Get(name)
	if !ok {
		return nil, fail("the format's key %s is not given", quote(name))
	}
	return v, nil
}
