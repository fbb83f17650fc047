package syntax

import "fmt"

// Limits of one grammar. A schema of a thousand properties stays well below; beyond them is a mistake or an attack, which gets an
// error within about a second.
const (
	MaxSource  = 1 << 20 // bytes of a source text
	MaxNesting = 128     // of brackets, schemas within schemas, groups within groups
	MaxRules   = 20_000  // rules of a grammar, those made for it included
	MaxTimes   = 1 << 30 // repetitions that a quantifier or a bound may name
)

// CheckSource refuses a source text that is too long. kind names it in the error.
func CheckSource(kind, text string) error {
	if len(text) > MaxSource {
		return fmt.Errorf("grammar: the %s has %d bytes; %d are allowed", kind, len(text), MaxSource)
	}
	return nil
}
