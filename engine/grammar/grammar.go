package grammar

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// Grammar is a language, as rules. It is made by one of the From functions and does not change afterwards.
type Grammar struct {
	rules []rule
	root  int
}

// rule is a named language. If times is set, the rule is that many of the rule body names: its state is a counter.
type rule struct {
	name  string // for error messages: as the source calls it, or where in the source it stands
	body  expr
	times *times
}

type times struct {
	body     int // rule
	min, max int // max < 0: no upper bound
}

// FromChoices is the grammar of exactly these texts.
func FromChoices(choices []string) (*Grammar, error) {
	if len(choices) == 0 {
		return nil, errors.New("grammar: the list of choices is empty; give at least one")
	}
	var options alt
	size := 0
	for i, c := range choices {
		size += len(c)
		if size > maxSource {
			return nil, fmt.Errorf("grammar: the choices have more than %d bytes", maxSource)
		}
		if !utf8.ValidString(c) {
			return nil, fmt.Errorf("grammar: choice %d is not valid UTF-8", i)
		}
		options = append(options, text(c))
	}
	return &Grammar{rules: []rule{{name: "root", body: options}}}, nil
}
