package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v4"
)

// Flags that were not given have their values from RIDGE_NAME in the environment, or else from the file of settings. A file has flags of all commands at its top,
// and those of one under the command's name.

// setting is a value of a flag and where it comes from.
type setting struct {
	values []string // of a list each
	from   string
}

// environment is what a flag's variable is called: RIDGE_KEEP_ALIVE.
func environment(flag string) string {
	return "RIDGE_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// notSettings are flags that make no sense in a file.
var notSettings = []string{"help", "version", "config"}

// settle gives a command's flags that were not given their values, and says where the values that hold come from.
func settle(cmd *cobra.Command) (from map[string]string, err error) {
	file, settings, err := readConfig(cmd)
	if err != nil {
		return nil, err
	}
	from = map[string]string{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if slices.Contains(notSettings, f.Name) {
			return
		}
		s, ok := settings[f.Name]
		if value, given := os.LookupEnv(environment(f.Name)); given && value != "" {
			s, ok = setting{values: valuesOf(f, value), from: environment(f.Name)}, true
		}
		switch {
		case f.Changed:
			from[f.Name] = "given"
		case ok:
			from[f.Name] = s.from
			for _, v := range s.values {
				if bad := cmd.Flags().Set(f.Name, v); bad != nil && err == nil {
					err = fmt.Errorf("%s: %w", s.from, flagError(cmd, bad))
				}
			}
		}
	})
	if err == nil && file != "" {
		from[""] = file
	}
	return from, err
}

// valuesOf are the values of a variable: of a flag that can be given several times those between commas.
func valuesOf(f *pflag.Flag, text string) []string {
	if f.Value.Type() != "stringArray" {
		return []string{text}
	}
	var all []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			all = append(all, part)
		}
	}
	return all
}

// configFile is the file of settings: the one of --config or RIDGE_CONFIG, or else ridge/config.yaml in the user's folder of settings, which need not be there.
func configFile(cmd *cobra.Command) (path string, named bool) {
	if f := cmd.Flags().Lookup("config"); f != nil && f.Value.String() != "" {
		return f.Value.String(), true
	}
	if path := os.Getenv("RIDGE_CONFIG"); path != "" {
		return path, true
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", false
	}
	return filepath.Join(dir, "ridge", "config.yaml"), false
}

// readConfig reads what the file of settings says to a command; file is "" where there is none.
func readConfig(cmd *cobra.Command) (file string, settings map[string]setting, err error) {
	path, named := configFile(cmd)
	data, err := os.ReadFile(path)
	if err != nil {
		if !named && (path == "" || errors.Is(err, fs.ErrNotExist)) {
			return "", nil, nil
		}
		return "", nil, fmt.Errorf("the file of settings: %w", err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return "", nil, fmt.Errorf("the file of settings %s: %w", path, err)
	}
	settings = map[string]setting{}
	if len(document.Content) == 0 { // empty, or comments alone
		return path, settings, nil
	}
	c := &config{path: path, cmd: cmd, settings: settings}
	return path, settings, c.read(document.Content[0], cmd.Root(), true)
}

// config is a file of settings while it is read for a command.
type config struct {
	path     string
	cmd      *cobra.Command
	settings map[string]setting
}

func (c *config) wrong(n *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", c.path, n.Line, fmt.Sprintf(format, args...))
}

// read reads the settings for a command and those below it. What is of another command is checked and left.
func (c *config) read(n *yaml.Node, of *cobra.Command, top bool) error {
	if n.Kind != yaml.MappingNode {
		return c.wrong(n, "a mapping of flags to values is wanted")
	}
	applies := top || of == c.cmd || isBelow(c.cmd, of)
	seen := map[string]bool{}
	sections := map[*cobra.Command]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if seen[key.Value] {
			return c.wrong(key, "%s is there twice", key.Value)
		}
		seen[key.Value] = true
		if sub := commandCalled(of, key.Value); sub != nil && value.Kind == yaml.MappingNode {
			sections[sub] = value
			continue
		}
		if slices.Contains(notSettings, key.Value) || !hasFlag(of, key.Value) {
			return c.wrong(key, "%s is no flag of %s", key.Value, of.CommandPath())
		}
		values, err := c.values(value)
		if err != nil {
			return err
		}
		if f := c.cmd.Flags().Lookup(key.Value); f != nil && applies { // by its own name, where it has two
			c.settings[f.Name] = setting{values, fmt.Sprintf("%s:%d", c.path, key.Line)}
		}
	}
	for sub, section := range sections { // what is said of one command goes before what is said of all
		if err := c.read(section, sub, false); err != nil {
			return err
		}
	}
	return nil
}

// values are a scalar, or those of a list.
func (c *config) values(n *yaml.Node) ([]string, error) {
	switch n.Kind {
	case yaml.ScalarNode:
		return []string{n.Value}, nil
	case yaml.SequenceNode:
		var all []string
		for _, x := range n.Content {
			if x.Kind != yaml.ScalarNode {
				return nil, c.wrong(x, "a list of values is wanted")
			}
			all = append(all, x.Value)
		}
		return all, nil
	}
	return nil, c.wrong(n, "a value or a list of values is wanted")
}

// isBelow reports whether a command is one of another's.
func isBelow(cmd, of *cobra.Command) bool {
	for c := cmd.Parent(); c != nil && c.HasParent(); c = c.Parent() {
		if c == of {
			return true
		}
	}
	return false
}

func commandCalled(of *cobra.Command, name string) *cobra.Command {
	for _, c := range of.Commands() {
		if c.Name() == name {
			return c
		}
	}
	return nil
}

// hasFlag reports whether a command or one below it has a flag of a name.
func hasFlag(of *cobra.Command, name string) bool {
	return of.Flags().Lookup(name) != nil || slices.ContainsFunc(of.Commands(), func(c *cobra.Command) bool { return hasFlag(c, name) })
}

func configCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "config [COMMAND]",
		Short: "Print the settings that hold, and why",
		Long: `Config prints the flags of a command (default: serve) with the values that they have when they are not given, and where those come from: the environment, the file of settings, or the
default of the program, of which only --all shows all. Every flag has a variable, --keep-alive RIDGE_KEEP_ALIVE; of a flag that can be given several times it has the values with commas
between them. The file is YAML: --config FILE, RIDGE_CONFIG, or ridge/config.yaml in the user's folder of settings. What is printed is such a file.

    backend: cuda          # all commands that have the flag
    serve:                 # one command
      host: 0.0.0.0
      models-dir: [/srv/models]
      keep-alive: 10m

A flag that is given goes before its variable, that before the file.`,
		Example: "  ridge config\n  ridge config run --all\n  RIDGE_PORT=9000 ridge config serve",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			of, _, err := cmd.Root().Find(append([]string{}, cmpOr(args, "serve")...))
			if err != nil || !of.HasParent() {
				return fmt.Errorf("there is no command %q", args)
			}
			if path, named := configFile(cmd); named && of.InheritedFlags().Lookup("config") != nil {
				if err := of.InheritedFlags().Set("config", path); err != nil {
					return err
				}
			}
			from, err := settle(of)
			if err != nil {
				return err
			}
			return printConfig(cmd, of, from, all)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "print the flags with the program's defaults too")
	return cmd
}

func cmpOr(args []string, usual string) []string {
	if len(args) == 0 {
		return []string{usual}
	}
	return args
}

// printConfig prints a command's settings as a file of settings.
func printConfig(cmd, of *cobra.Command, from map[string]string, all bool) error {
	out := cmd.OutOrStdout()
	if file := from[""]; file != "" {
		fmt.Fprintf(out, "# %s\n", file)
	}
	fmt.Fprintf(out, "%s:\n", of.Name())
	var err error
	of.Flags().VisitAll(func(f *pflag.Flag) {
		why := from[f.Name]
		if slices.Contains(notSettings, f.Name) || f.Hidden || why == "" && !all {
			return
		}
		if why == "" {
			why = "default"
		}
		value := f.Value.String()
		if f.Name == "api-key" && f.Changed {
			value = "(hidden)"
		}
		text, bad := yaml.Marshal(value)
		if list, ok := f.Value.(pflag.SliceValue); ok && f.Name != "api-key" {
			text, bad = yaml.Marshal(list.GetSlice())
			if len(list.GetSlice()) > 0 {
				text = []byte("[" + strings.Join(list.GetSlice(), ", ") + "]")
			}
		}
		err = errors.Join(err, bad)
		_, bad = fmt.Fprintf(out, "  %s: %s  # %s\n", f.Name, strings.TrimSpace(string(text)), why)
		err = errors.Join(err, bad)
	})
	return err
}
