package main

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// wanted is what the values of flags must be, by their type.
var wanted = map[string]string{
	"int": "whole number", "int64": "whole number", "float64": "number", "duration": "time such as 50ms or 1m30s", "bool": "boolean (true or false)",
}

// flagError says what is wrong with a flag's value in a sentence of ours; pflag tells which function of Go's did not like it.
func flagError(_ *cobra.Command, err error) error {
	var bad *pflag.InvalidValueError
	if !errors.As(err, &bad) {
		return err
	}
	flag, value := bad.GetFlag(), bad.GetValue()
	kind, known := wanted[flag.Value.Type()]
	switch {
	case errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("--%s: %s is too large", flag.Name, value)
	case known:
		return fmt.Errorf("--%s: %q is not a %s", flag.Name, value, kind)
	}
	return fmt.Errorf("--%s: %w", flag.Name, bad.Unwrap())
}
