package tokenizer

// o200kTiler matches patternO200k and patternTekken, whose words change at a capital letter after a small one.
type o200kTiler struct {
	cl           *classTable
	contractions bool // a word may end in 's, 't …
	digits       int  // most digits in one match
}

// [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] and [\p{Ll}\p{Lm}\p{Lo}\p{M}]: letters without case, and marks, are in both.
func isUpper(c runeClass) bool {
	return c&(classLetter|classMark) != 0 && c&classLower == 0
}

func isLower(c runeClass) bool {
	return c&(classLetter|classMark) != 0 && c&classUpper == 0
}

func (t o200kTiler) next(s string, i int) int {
	c, n := t.cl.at(s, i)
	after := i + n
	if c&classNumber != 0 {
		return t.cl.upTo(s, after, classNumber, t.digits-1)
	}
	if end := t.word(s, i, c, after); end > 0 {
		if t.contractions {
			end = contraction(s, end, true)
		}
		return end
	}
	const other = classSpace | classLetter | classNumber
	if c&other == 0 {
		return trailing(s, t.cl.runNot(s, after, other), true)
	} else if s[i] == ' ' {
		if d, m := t.cl.at(s, after); m > 0 && d&other == 0 {
			return trailing(s, t.cl.runNot(s, after+m, other), true)
		}
	}
	return t.cl.lines(s, i)
}

// word matches P?U*L+|P?U+L* at byte i, whose rune has class c and ends at after; P is [^\r\n\p{L}\p{N}]. It tries the
// alternatives in the order in which a backtracking engine does, and returns 0 when none matches.
func (t o200kTiler) word(s string, i int, c runeClass, after int) int {
	prefix := c&(classLetter|classNumber) == 0 && !isNewline(s[i])
	if prefix {
		if end := t.upperThenLower(s, after); end > 0 {
			return end
		}
	}
	if end := t.upperThenLower(s, i); end > 0 {
		return end
	}
	if prefix {
		if end := t.uppers(s, after); end > after {
			return end // no L follows: upperThenLower would have matched it
		}
	}
	if end := t.uppers(s, i); end > i {
		return end
	}
	return 0
}

// uppers returns the end of U* at byte i.
func (t o200kTiler) uppers(s string, i int) int {
	for {
		c, n := t.cl.at(s, i)
		if n == 0 || !isUpper(c) {
			return i
		}
		i += n
	}
}

// upperThenLower matches U*L+ at byte i, and returns 0 when it cannot. Where no L follows the greedy U*, L+ is the last
// rune of U* that is in both classes.
func (t o200kTiler) upperThenLower(s string, i int) int {
	end, shared := i, 0
	for {
		c, n := t.cl.at(s, end)
		if n == 0 || !isUpper(c) {
			break
		}
		end += n
		if isLower(c) {
			shared = end
		}
	}
	low := end
	for {
		c, n := t.cl.at(s, low)
		if n == 0 || !isLower(c) {
			break
		}
		low += n
	}
	if low > end {
		return low
	}
	return shared
}
