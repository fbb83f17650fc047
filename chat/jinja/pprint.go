package jinja

import "strings"

// filterPprint lays a value out as Python's pprint.pformat does: 80 columns, dicts sorted by key.
func filterPprint(r *render, value any, a args) (any, error) {
	if _, err := a.bind("pprint", 0); err != nil {
		return nil, err
	}
	sorted, err := r.sortDicts(value, 0)
	if err != nil {
		return nil, err
	}
	p := &prettyPrinter{r: r}
	err = p.format(sorted, 0, 0, 1)
	return p.b.String(), err
}

// sortDicts is a copy of v in which every dict is sorted.
func (r *render) sortDicts(v any, depth int) (any, error) {
	if depth > maxData {
		return nil, failKind(Limit, "a value nests too deep to be printed")
	}
	each := func(items []any) ([]any, error) {
		out, err := r.joinItems(items, nil)
		for i := 0; err == nil && i < len(out); i++ {
			out[i], err = r.sortDicts(out[i], depth+1)
		}
		return out, err
	}
	switch v := v.(type) {
	case *List:
		items, err := each(v.items)
		return &List{items}, err
	case *Tuple:
		items, err := each(v.items)
		return &Tuple{items: items}, err
	case *Map:
		return r.sortDict(v, depth)
	}
	return v, r.step(1)
}

func (r *render) sortDict(m *Map, depth int) (any, error) {
	entries, err := r.items(&dictView{m, "items"})
	if err != nil {
		return nil, err
	}
	byKey, err := r.sortBy(entries, m.keys, false)
	if err != nil { // keys without an order are sorted by the names of their types
		names, _ := keysOf(m.keys, func(k any) (any, error) { return typeName(k), nil })
		if byKey, err = r.sortBy(entries, names, false); err != nil {
			return nil, err
		}
	}
	out := NewMap()
	for _, e := range byKey {
		entry := e.(*Tuple).items
		v, err := r.sortDicts(entry[1], depth+1)
		if err != nil {
			return nil, err
		}
		if err := out.set(r, entry[0], v); err != nil {
			return nil, err
		}
	}
	return out, nil
}

const prettyWidth = 80

type prettyPrinter struct {
	r *render
	b strings.Builder
}

func (p *prettyPrinter) put(s string) error {
	p.b.WriteString(s)
	return p.r.grow(len(s))
}

// format writes v at column indent, leaving allowance columns free behind it.
func (p *prettyPrinter) format(v any, indent, allowance, level int) error {
	s, err := p.r.repr(v)
	if err != nil {
		return err
	}
	if runeCount(s) <= prettyWidth-indent-allowance {
		return p.put(s)
	}
	switch v := v.(type) {
	case string:
		return p.text(v, indent, allowance, level)
	case *List:
		return p.items("[", v.items, "]", indent, allowance, level)
	case *Tuple:
		end := ")"
		if len(v.items) == 1 {
			end = ",)"
		}
		return p.items("(", v.items, end, indent, allowance, level)
	case *Map:
		return p.entries(v, indent, allowance, level)
	}
	return p.put(s)
}

func (p *prettyPrinter) items(open string, items []any, end string, indent, allowance, level int) error {
	for i, item := range items {
		room := 1
		if i == len(items)-1 {
			room = allowance + len(end)
		}
		if err := p.put(open); err != nil {
			return err
		}
		if err := p.format(item, indent+1, room, level+1); err != nil {
			return err
		}
		open = ",\n" + strings.Repeat(" ", indent+1)
	}
	return p.put(end)
}

func (p *prettyPrinter) entries(m *Map, indent, allowance, level int) error {
	open := "{"
	for i := range m.Len() {
		k, v := m.At(i)
		key, err := p.r.repr(k)
		if err != nil {
			return err
		}
		room := 1
		if i == m.Len()-1 {
			room = allowance + 1
		}
		if err := p.put(open + key + ": "); err != nil {
			return err
		}
		if err := p.format(v, indent+1+runeCount(key)+2, room, level+1); err != nil {
			return err
		}
		open = ",\n" + strings.Repeat(" ", indent+1)
	}
	return p.put("}")
}

// text writes a long text as several, one below the other; Python reads them as one.
func (p *prettyPrinter) text(s string, indent, allowance, level int) error {
	if level == 1 {
		indent, allowance = indent+1, allowance+1
	}
	var chunks []string
	lines := splitLines(s, true)
	for i, line := range lines {
		room := prettyWidth - indent
		last := 0
		if i == len(lines)-1 {
			last = allowance
		}
		if runeCount(quote(line)) <= room-last {
			chunks = append(chunks, quote(line))
			continue
		}
		current := ""
		parts := wordsWithSpace(line)
		for j, part := range parts {
			if j == len(parts)-1 {
				room -= last
			}
			if runeCount(quote(current+part)) <= room {
				current += part
				continue
			}
			if current != "" {
				chunks = append(chunks, quote(current))
			}
			current = part
		}
		chunks = append(chunks, quote(current))
	}
	if len(chunks) > 1 && level == 1 {
		return p.put("(" + strings.Join(chunks, "\n"+strings.Repeat(" ", indent)) + ")")
	}
	return p.put(strings.Join(chunks, "\n"+strings.Repeat(" ", indent)))
}

// wordsWithSpace cuts a text into words, each with the white space behind it.
func wordsWithSpace(s string) []string {
	var parts []string
	for s != "" {
		n := max(strings.IndexFunc(s, isSpace), 0)
		if n == 0 && leadingSpace(s) == 0 {
			n = len(s)
		}
		n += leadingSpace(s[n:])
		parts = append(parts, s[:n])
		s = s[n:]
	}
	return parts
}
