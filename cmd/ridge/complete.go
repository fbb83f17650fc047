package main

import "strings"

const (
	tab   = '\t'
	ctrlR = 18
)

// completion completes lines: Tab commands, Ctrl-R what was typed before.
type completion struct {
	history *history
	sought  string // by the last Ctrl-R
	found   string // and what that has put on the line
	at      int    // of the history, 0 the newest
}

// complete is a term.Terminal's AutoCompleteCallback.
func (c *completion) complete(line string, pos int, key rune) (string, int, bool) {
	switch key {
	case tab:
		if done, ok := completeWord(line[:pos]); ok {
			return done + line[pos:], len(done), true
		}
	case ctrlR:
		if line != c.found || c.found == "" {
			c.sought, c.at = line, -1
		}
		for i := c.at + 1; i < c.history.Len(); i++ {
			if past := c.history.At(i); strings.Contains(past, c.sought) && past != line {
				c.at, c.found = i, past
				return past, len(past), true
			}
		}
		return line, pos, true
	}
	return "", 0, false
}

// modelCommand is the command whose argument is a model.
const modelCommand = "/model "

// completeWord completes the beginning of a command, or of the name of a model behind the one that takes such, as far as there is only one way.
func completeWord(begun string) (string, bool) {
	if name, ok := strings.CutPrefix(begun, modelCommand); ok {
		name, ok = complete(beginningWith(modelNames(), name), name)
		return modelCommand + name, ok
	}
	if !strings.HasPrefix(begun, "/") || strings.Contains(begun, " ") {
		return "", false
	}
	var all []string
	for line := range strings.Lines(sessionHelp) {
		if name := strings.Fields(line)[0]; strings.HasPrefix(name, begun) {
			all = append(all, name)
		}
	}
	return complete(all, begun)
}

// complete is the longest beginning that all have, behind which a space is written if there is one alone, and whether it is more than what was begun.
func complete(all []string, begun string) (string, bool) {
	if len(all) == 0 {
		return "", false
	}
	common := all[0]
	for _, name := range all[1:] {
		for !strings.HasPrefix(name, common) {
			common = common[:len(common)-1]
		}
	}
	if len(all) == 1 {
		common += " "
	}
	return common, len(common) > len(begun)
}
