// Package grammar keeps a model's answer inside a language: it says, before every token, which tokens may come next.
//
//	source ─► Grammar ─► Automaton ─► Matcher ─► Mask, Accept, Forced, Done
//	(text)    (rules)    (shared)     (a request)
//
// A source is a JSON schema, a regular expression, a GBNF grammar or a list of choices; each becomes a Grammar, which is
// rules over code points. Compile joins it with a Vocabulary (the bytes of every token) to an Automaton, which all
// requests with that grammar share; every request has a Matcher. A Cache keeps the automata of recent sources.
//
// # How it works
//
// Every rule becomes a small deterministic automaton over bytes, whose transitions are bytes or calls of other rules.
// What the text so far may be is a set of stacks of such states (position.go). Positions are kept and linked by byte as
// they are met, so a text that comes by again walks a table.
//
// Asking of all 128k tokens whether they may come next takes milliseconds, so the answers are kept (context.go). A
// token's fate mostly depends on the top of the stack alone. The few tokens that reach below it (`",` inside a JSON
// string: what may follow the string is not for the string to say) are looked at again with one more frame known, and
// again, until none is left. So a mask is nearly always a few lookups and an OR of bits.
//
// Repetitions with large bounds are not unrolled: their state is a counter on the stack, and counters far from their
// bounds share their masks.
//
// # Limits
//
// Whatever a client sends ends in a result or a sentence: sources, states, stacks, memory and the work of one mask are
// bounded (limits.go).
package grammar
