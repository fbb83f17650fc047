package main

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ridge-llm/ridge/engine/sched"
	"github.com/ridge-llm/ridge/internal/convert"
	"github.com/ridge-llm/ridge/internal/shelf"
	"github.com/ridge-llm/ridge/price"
	"github.com/ridge-llm/ridge/route/policy"
)

// completeValues has shells complete the values of flags that are names, and models, for a command and those below it. Where no name begins as what was
// typed, shells complete files.
func completeValues(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		values := flagValues(f)
		if values == nil || f.Hidden {
			return
		}
		complete := func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
			return beginningWith(values(), begun), cobra.ShellCompDirectiveDefault
		}
		if err := cmd.RegisterFlagCompletionFunc(f.Name, complete); err != nil {
			panic(err) // the flag is the command's own, and there is one completion of it
		}
	})
	if arguments := argumentValues(cmd); arguments != nil {
		cmd.ValidArgsFunction = func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
			return beginningWith(arguments(), begun), cobra.ShellCompDirectiveDefault
		}
	}
	for _, c := range cmd.Commands() {
		completeValues(c)
	}
}

// flagValues is the names that a flag may have; nil where it has other values.
func flagValues(f *pflag.Flag) func() []string {
	named := func(all ...string) func() []string {
		// What a flag's own description does not name is not possible with its command.
		all = slices.DeleteFunc(all, func(v string) bool { return !strings.Contains(f.Usage, v) })
		return func() []string { return all }
	}
	switch f.Name {
	case "model":
		return modelNames
	case "type":
		return convert.TypeNames
	case "device":
		return deviceNames
	case "backend":
		return named("cpu", "cuda", "ref")
	case "kv-type":
		return named("f16", "bf16", "f32", "int8", "fp8", "int4")
	case "quantization":
		return named("fp8", "int8", "int4", "w8a8", "llm.int8")
	case "policy":
		return named(append(policy.Names(), string(sched.FCFS), string(sched.ByPriority), string(sched.LongestPrefix))...)
	case "prefix-index":
		return named("radix", "hash", "none")
	case "pooling":
		return named("last", "mean", "cls")
	}
	return nil
}

// argumentValues is what a command's arguments may be, by its usage line; nil where they are no models.
func argumentValues(cmd *cobra.Command) func() []string {
	use := cmd.Use
	switch {
	case cmd.Name() == "rm":
		return func() []string { return append(createdNames(), downloadedNames()...) }
	case cmd.Name() == "pull", strings.Contains(use, " MODEL"), strings.Contains(use, "[MODEL"):
		return modelNames
	}
	return nil
}

// modelNames is the user's own names, what was downloaded, and the short names. What cannot be read has no names: a shell has no place for an error.
func modelNames() []string {
	var names []string
	if a, err := openAliases(); err == nil {
		names = slices.Collect(maps.Keys(a.Names))
	}
	names = append(append(names, createdNames()...), downloadedNames()...)
	for _, m := range shelf.All() {
		names = append(names, m.Name())
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// createdNames is the models that were made of others.
func createdNames() (names []string) {
	store, err := openCreated()
	if err != nil {
		return nil
	}
	all, _ := store.List()
	for _, m := range all {
		names = append(names, m.Name)
	}
	return names
}

// downloadedNames is the models from the hub that are here, by all their names.
func downloadedNames() (names []string) {
	all, err := downloaded()
	if err != nil {
		return nil
	}
	for _, m := range all {
		names = append(append(names, m.Name), m.Aliases...)
	}
	return names
}

// deviceNames is the devices with published figures, and this machine.
func deviceNames() []string {
	names := []string{"here"}
	for _, d := range price.Devices() {
		names = append(names, d.Name)
	}
	return names
}

func beginningWith(all []string, begun string) (some []string) {
	for _, v := range all {
		if strings.HasPrefix(v, begun) {
			some = append(some, v)
		}
	}
	return some
}
