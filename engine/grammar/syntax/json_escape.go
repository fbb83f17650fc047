package syntax

import "fmt"

// EscapedInJSON is the code points that stand in a JSON string only behind a backslash (RFC 8259, section 7).
var (
	EscapedInJSON   = NewClass([]RuneRange{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}})
	UnescapedInJSON = EscapedInJSON.Complement()
)

// EscapeJSON is how an escaped code point is written: the short form where there is one.
func EscapeJSON(r rune) string {
	switch r {
	case '"', '\\':
		return `\` + string(r)
	case '\b':
		return `\b`
	case '\f':
		return `\f`
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case '\t':
		return `\t`
	}
	return fmt.Sprintf(`\u%04x`, r)
}
