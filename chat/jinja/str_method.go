package jinja

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
		"translate", "zfill", "isalnum", "isalpha", "isascii", "isdecimal", "isdigit", "isidentifier", "islower", "isnumeric",
		"isprintable", "isspace", "istitle", "isupper":
		return refusedMethod("str", name)
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
