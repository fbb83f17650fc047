package tokenizer

// gpt2Tiler matches patternGPT2.
type gpt2Tiler struct{ cl *classTable }

func (t gpt2Tiler) next(s string, i int) int {
	if s[i] == '\'' {
		if end := contraction(s, i, false); end > i {
			return end
		}
	}
	c, n := t.cl.at(s, i)
	word := i + n // where the run starts that may have one space before it
	if s[i] == ' ' {
		if c, n = t.cl.at(s, i+1); n == 0 {
			return i + 1
		}
		word += n
	}
	switch {
	case c&classLetter != 0:
		return t.cl.run(s, word, classLetter)
	case c&classNumber != 0:
		return t.cl.run(s, word, classNumber)
	case c&classSpace == 0:
		return t.cl.runNot(s, word, classSpace|classLetter|classNumber)
	}
	return t.cl.lastSpaceApart(s, i, t.cl.run(s, i, classSpace))
}
