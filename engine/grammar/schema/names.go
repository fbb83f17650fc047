package schema

import "github.com/ridge-llm/ridge/engine/grammar/syntax"

// otherName is the language of the names that are not declared. They are spelled in one way only, so that a declared
// name cannot come in other letters.
func (c *compiler) otherName(declared []property) syntax.Expr {
	if len(declared) == 0 {
		return c.anyString()
	}
	return syntax.Seq{syntax.Text(`"`), syntax.Quoted{X: syntax.OtherText(names(declared))}, syntax.Text(`"`)}
}

func names(declared []property) (all []string) {
	for _, p := range declared {
		all = append(all, p.name)
	}
	return all
}
