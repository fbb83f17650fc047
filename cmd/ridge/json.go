package main

import (
	"encoding/json"
	"io"

	"github.com/spf13/pflag"
)

// addJSON adds --json, which means the same of every command: the result, whatever it is, goes to standard output as JSON, and nothing else does.
func addJSON(fl *pflag.FlagSet, asJSON *bool) {
	fl.BoolVar(asJSON, "json", false, "print the result as JSON")
}

// printJSON writes a result as JSON, indented for people.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
