package jinja

import (
	"strings"
	"unicode"
)

// strMethod finds a method of str. Those that give text give Markup when called on Markup.
func strMethod(name string) method {
	switch name {
	case "capitalize":
		return textMethod(name, capitalize)
	case "lower":
		return textMethod(name, lower)
	case "title":
		return textMethod(name, title)
	case "upper":
		return textMethod(name, upper)
	case "strip", "lstrip", "rstrip":
		return strStrip(name)
	case "removeprefix", "removesuffix":
		return strRemove(name)
	case "startswith", "endswith":
		return strAffix(name)
	case "find", "rfind", "index", "rindex", "count":
		return strSearch(name)
	case "split", "rsplit":
		return strSplit(name)
	case "splitlines":
		return strSplitLines
	case "partition", "rpartition":
		return strPartition(name)
	case "join":
		return strJoin
	case "replace":
		return strReplace
	case "casefold", "center", "encode", "expandtabs", "format", "format_map", "ljust", "maketrans", "rjust", "swapcase",
		"translate", "zfill":
		return func(*render, any, args) (any, error) {
			return nil, failKind(Unsupported, "Ridge's Jinja does not have str.%s", name)
		}
	}
	if is := strPredicate(name); is != nil {
		return func(_ *render, recv any, a args) (any, error) {
			s, _ := text(recv)
			_, err := a.bind(name, 0)
			return is(s), err
		}
	}
	return nil
}

// like gives s the type of the text it was made from.
func like(recv any, s string) any {
	if isMarkup(recv) {
		return Markup(s)
	}
	return s
}

// likeAll makes a list of texts of the type of the one they were made from.
func likeAll(r *render, recv any, parts []string) (any, error) {
	if err := r.grow(2 * slotBytes * len(parts)); err != nil {
		return nil, err
	}
	list := &List{make([]any, len(parts))}
	for i, s := range parts {
		list.items[i] = like(recv, s)
	}
	return list, nil
}

// textMethod makes a method without arguments from a function.
func textMethod(name string, fn func(string) string) method {
	return func(r *render, recv any, a args) (any, error) {
		s, _ := text(recv)
		if _, err := a.bind(name, 0); err != nil {
			return nil, err
		}
		if err := r.grow(3 * len(s)); err != nil {
			return nil, err
		}
		return like(recv, fn(s)), nil
	}
}

func capitalize(s string) string {
	var b strings.Builder
	for i, c := range s {
		if i == 0 {
			b.WriteString(titleRune(c))
		} else {
			lowerRune(&b, s, i, c)
		}
	}
	return b.String()
}

// title capitalises each run of cased letters.
func title(s string) string {
	var b strings.Builder
	inWord := false
	for i, c := range s {
		if inWord {
			lowerRune(&b, s, i, c)
		} else {
			b.WriteString(titleRune(c))
		}
		inWord = isCased(c)
	}
	return b.String()
}

func isUpperCase(c rune) bool { return unicode.In(c, unicode.Lu, unicode.Other_Uppercase) }

func isLowerCase(c rune) bool { return unicode.In(c, unicode.Ll, unicode.Other_Lowercase) }

// strPredicate finds one of the methods that ask what kind of characters a text has.
func strPredicate(name string) func(string) bool {
	all := func(is func(rune) bool) func(string) bool {
		return func(s string) bool {
			return s != "" && !strings.ContainsFunc(s, func(c rune) bool { return !is(c) })
		}
	}
	switch name {
	case "isalnum":
		return all(isAlnum)
	case "isalpha":
		return all(unicode.IsLetter)
	case "isascii":
		return isASCII
	case "isdecimal":
		return all(func(c rune) bool { return unicode.Is(unicode.Nd, c) })
	case "isdigit":
		return all(isDigit)
	case "isidentifier":
		return isIdentifier
	case "islower":
		return func(s string) bool {
			return strings.ContainsFunc(s, isLowerCase) && !strings.ContainsFunc(s, func(c rune) bool { return isUpperCase(c) || unicode.IsTitle(c) })
		}
	case "isupper":
		return func(s string) bool {
			return strings.ContainsFunc(s, isUpperCase) && !strings.ContainsFunc(s, func(c rune) bool { return isLowerCase(c) || unicode.IsTitle(c) })
		}
	case "isnumeric":
		return all(isNumeric)
	case "isprintable":
		return func(s string) bool { return s == "" || all(unicode.IsPrint)(s) }
	case "isspace":
		return all(isSpace)
	case "istitle":
		return isTitle
	}
	return nil
}

func isTitle(s string) bool {
	inWord, some := false, false
	for _, c := range s {
		switch {
		case isUpperCase(c) || unicode.IsTitle(c):
			if inWord {
				return false
			}
			inWord, some = true, true
		case isLowerCase(c):
			if !inWord {
				return false
			}
			some = true
		default:
			inWord = false
		}
	}
	return some
}
