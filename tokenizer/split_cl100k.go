package tokenizer

// cl100kTiler matches patternLlama3 and its kin: they differ in what makes a word and in how many digits go together.
type cl100kTiler struct {
	cl     *classTable
	word   runeClass // what words are made of
	digits int       // most digits in one match
}

func (t cl100kTiler) next(s string, i int) int {
	c, n := t.cl.at(s, i)
	if s[i] == '\'' {
		if end := contraction(s, i, true); end > i {
			return end
		}
	}
	after := i + n
	// [^\r\n\p{L}\p{N}]?W+, where W is t.word. A mark at i is in both parts when words hold marks; as the optional part
	// is taken greedily but given back when nothing follows, the match is the same run either way.
	switch {
	case c&t.word != 0:
		return t.cl.run(s, after, t.word)
	case c&classNumber != 0:
		return t.cl.upTo(s, after, classNumber, t.digits-1)
	case !isNewline(s[i]):
		if d, m := t.cl.at(s, after); d&t.word != 0 {
			return t.cl.run(s, after+m, t.word)
		}
	}
	if other := classSpace | classNumber | t.word | classLetter; c&other == 0 {
		return trailing(s, t.cl.runNot(s, after, other), false)
	} else if s[i] == ' ' {
		if d, m := t.cl.at(s, after); m > 0 && d&other == 0 {
			return trailing(s, t.cl.runNot(s, after+m, other), false)
		}
	}
	return t.cl.lines(s, i)
}

// trailing matches [\r\n]* (with slash: [\r\n/]*) at byte i of s.
func trailing(s string, i int, slash bool) int {
	for i < len(s) && (isNewline(s[i]) || slash && s[i] == '/') {
		i++
	}
	return i
}
