package shelf

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Aliases are a user's own names for models, kept in a file: a name and what it means a line.
type Aliases struct {
	File  string
	Names map[string]string
}

var aliasPattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}(:[A-Za-z0-9_][A-Za-z0-9._-]{0,63})?$`)

// OpenAliases reads the file; where there is none there are no aliases.
func OpenAliases(file string) (*Aliases, error) {
	a := &Aliases{File: file, Names: map[string]string{}}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return a, nil
	}
	if err != nil {
		return nil, fmt.Errorf("shelf: the file of aliases: %w", err)
	}
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		name, model, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "" || strings.HasPrefix(name, "#") {
			continue
		}
		if model = strings.TrimSpace(model); model == "" || !aliasPattern.MatchString(name) {
			return nil, fmt.Errorf("shelf: line %d of %s is %q; a name, a space and a model are wanted", number, file, strings.TrimSpace(line))
		}
		a.Names[name] = model
	}
	return a, nil
}

// Set gives a model a name, or takes it away where model is "", and writes the file.
func (a *Aliases) Set(name, model string) error {
	switch {
	case !aliasPattern.MatchString(name) || strings.HasSuffix(strings.ToLower(name), ".gguf"):
		return fmt.Errorf("shelf: %q cannot be an alias; letters, digits, dots, dashes and one colon are possible", name)
	case model == "":
		if _, ok := a.Names[name]; !ok {
			return fmt.Errorf("shelf: there is no alias %q in %s", name, a.File)
		}
		delete(a.Names, name)
	case model == name || a.Names[model] != "":
		return fmt.Errorf("shelf: %q is an alias itself; an alias names a model", model)
	case strings.ContainsAny(model, "\r\n"):
		return fmt.Errorf("shelf: the model of an alias is %q, with a line break", model)
	default:
		a.Names[name] = model
	}
	var text strings.Builder
	for _, n := range slices.Sorted(maps.Keys(a.Names)) {
		fmt.Fprintf(&text, "%s %s\n", n, a.Names[n])
	}
	if err := os.MkdirAll(filepath.Dir(a.File), 0o755); err != nil {
		return fmt.Errorf("shelf: %w", err)
	}
	temp := a.File + ".new"
	if err := os.WriteFile(temp, []byte(text.String()), 0o644); err != nil {
		return fmt.Errorf("shelf: %w", err)
	}
	if err := os.Rename(temp, a.File); err != nil {
		return fmt.Errorf("shelf: %w", err)
	}
	return nil
}
