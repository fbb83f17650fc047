package main

import "fmt"

// writePolicyFlag reads when pages are written to folders, in SGLang's words.
type writePolicyFlag bool

// Type implements pflag.Value.
func (*writePolicyFlag) Type() string { return "policy" }

// String implements pflag.Value.
func (w *writePolicyFlag) String() string { return choice(bool(*w), "write_back", "write_through") }

// Set implements pflag.Value.
func (w *writePolicyFlag) Set(text string) error {
	return choose((*bool)(w), text, "write_back", "write_through")
}

// loadPolicyFlag reads when pages that are kept are used.
type loadPolicyFlag bool

// Type implements pflag.Value.
func (*loadPolicyFlag) Type() string { return "policy" }

// String implements pflag.Value.
func (l *loadPolicyFlag) String() string { return choice(bool(*l), "always", "priced") }

// Set implements pflag.Value.
func (l *loadPolicyFlag) Set(text string) error { return choose((*bool)(l), text, "always", "priced") }

// choice is one of two words.
func choice(set bool, yes, no string) string {
	if set {
		return yes
	}
	return no
}

// choose reads one of two words.
func choose(set *bool, text, yes, no string) error {
	if text != yes && text != no {
		return fmt.Errorf("%q is none of %s and %s", text, no, yes)
	}
	*set = text == yes
	return nil
}
