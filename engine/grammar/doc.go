// Package grammar constrains what a model writes: it says, before every token, which tokens may come next.
//
//	source ─► Grammar ─► Automaton ─► Matcher ─► Mask, Accept, Forced, Done
//	(text)    (rules)    (shared)     (a request)
//
// A source is a JSON schema, a regular expression, a GBNF grammar or a list of choices; each becomes a Grammar, which is
// rules over code points. Compile joins it with a Vocabulary (the bytes of every token) to an Automaton, which all
// requests with that grammar share; every request has a Matcher. A Cache keeps the automata of recent sources.
//
// This package is the API; the work is done below it:
//
//	syntax     grammars as trees of expressions; the bounds of sources
//	schema     JSON Schema → Grammar
//	regex      regular expression → Grammar
//	gbnf       llama.cpp's notation → Grammar
//	dfa        expression → deterministic automaton
//	automaton  Grammar + Vocabulary → masks
//
// # How it works
//
// Every rule becomes a small deterministic automaton over bytes, whose transitions are bytes or calls of other rules: a
// pushdown automaton. What the text so far may be is a set of stacks of its states (automaton/position.go). Positions are
// kept and linked by byte as they are met, so a text that comes by again walks a table.
//
// Trying all 128k tokens takes milliseconds, so the results are kept (automaton/context.go). Whether a token is allowed
// mostly depends on the top of the stack alone. The few tokens that end the rule at the top (`",` inside a JSON string)
// depend on the frame below: they are tried again with one more frame known, and again, until none is left. So a mask is
// nearly always a few lookups and an OR of bits.
//
// Repetitions with large bounds are not unrolled: their state is a counter on the stack, and counters far from their
// bounds share their masks.
//
// # Limits
//
// Bad or hostile input ends in a result or an error: sources, states, stacks, memory and the work of one mask are bounded
// (syntax/limits.go, dfa, automaton/tuning.go).
package grammar
