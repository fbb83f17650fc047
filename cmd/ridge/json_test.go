package main

import (
	"testing"

	"github.com/spf13/cobra"
)

// TestJSON: --json means the same of every command that has it: no value, and the result is JSON.
func TestJSON(t *testing.T) {
	n := 0
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if f := c.Flags().Lookup("json"); f != nil {
			n++
			if f.Value.Type() != "bool" || f.Usage != "print the result as JSON" {
				t.Errorf("%s: --json is a %s: %s", c.CommandPath(), f.Value.Type(), f.Usage)
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root())
	if n < 18 {
		t.Errorf("%d commands have --json", n)
	}
}
