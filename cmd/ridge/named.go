package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/term"

	"github.com/ridge-llm/ridge/internal/created"
	"github.com/ridge-llm/ridge/internal/device"
	"github.com/ridge-llm/ridge/internal/hub"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/internal/shelf"
	"github.com/ridge-llm/ridge/internal/size"
)

// newHub is the hub that the environment describes.
func newHub() (*hub.Hub, error) { return hub.FromEnvironment("ridge/" + thisBuild().Version) }

// openAliases reads the user's own names for models.
func openAliases() (*shelf.Aliases, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return &shelf.Aliases{}, nil // without a place for them there are none
	}
	return shelf.OpenAliases(filepath.Join(dir, "ridge", "aliases"))
}

// named is what a model's name on a command line means.
type named struct {
	name  string         // the model's, where an alias was given
	ref   *hub.Ref       // on the hub; nil: it is a path
	short shelf.Model    // whose short name it is; the zero one: none's
	made  *created.Model // what it was created as; nil: it was not
}

// lookUp finds out what a name means: a path, an alias, a short name, or a repository on the hub. A short name without a size is that of the model that the memory of
// a backend has room for.
func lookUp(name, backend string) (named, error) {
	aliases, err := openAliases()
	if err != nil {
		return named{}, err
	}
	if exists(name) {
		return named{name: name}, nil
	}
	if model := aliases.Names[name]; model != "" {
		name = model
	}
	if exists(name) {
		return named{name: name}, nil
	}
	if m := createdNamed(name); m != nil {
		n := named{name: m.Path}
		if m.From != "" && !exists(m.From) {
			n = onHub(m.From, backend)
		} else if m.From != "" {
			n.name = m.From
		}
		n.made = m
		return n, nil
	}
	return onHub(name, backend), nil
}

// createdNamed is the model that was created under a name; nil if none was.
func createdNamed(name string) *created.Model {
	store, err := openCreated()
	if err != nil {
		return nil // without a place for them there are none
	}
	all, _ := store.List() // of damaged ones the server says so
	i := slices.IndexFunc(all, func(m created.Model) bool { return m.Name == strings.TrimSuffix(name, ":latest") })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// onHub is what a name means that is neither a path nor an alias.
func onHub(name, backend string) named {
	n := named{name: name}
	full := name
	if m, ok := shelf.Find(name, 0, false); ok {
		if !strings.Contains(name, ":") || strings.HasSuffix(strings.ToLower(name), ":latest") {
			m, _ = shelf.Find(name, device.Memory(backend), device.OnGPU(backend))
		}
		n.short, full = m, m.Ref()
	}
	if r, err := hub.ParseRef(full); err == nil {
		n.ref = &r
	}
	return n
}

// base is the name or path of the model itself, of one that was created.
func (n named) base() string {
	if n.ref != nil {
		return n.ref.String()
	}
	return n.name
}

// notAsCreated is why a command cannot take a model that was created: it would be another.
func (n named) notAsCreated() error {
	if n.made == nil {
		return nil
	}
	return fmt.Errorf("%s was created of %s, with settings of its own, which ridge run knows, and ridge serve --models-hub or --models-dir; here, name %s", n.made.Name, n.base(), n.base())
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return name == "" || err == nil || modeldir.IsBuiltin(name)
}

// what is the model in words.
func (n named) what() string {
	switch {
	case n.ref == nil:
		return n.name
	case n.short.Bytes > 0:
		return fmt.Sprintf("%s (%s, %s)", n.short.Name(), n.ref, hub.Bytes(n.short.Bytes))
	case n.short.Family != "":
		return fmt.Sprintf("%s (%s)", n.short.Name(), n.ref)
	}
	return n.ref.String()
}

// hasRoom says before a model is downloaded that the memory of a backend is too small for it, and on a terminal asks whether it should be all the same: the file may be for
// another machine.
func (n named) hasRoom(backend string) error {
	memory, gpu := device.Memory(backend), device.OnGPU(backend)
	if n.short.Bytes == 0 || memory == 0 || n.short.Fits(memory, gpu) {
		return nil
	}
	text := fmt.Sprintf("%s needs about %s of memory, and this machine has %s", n.short.Name(), hub.Bytes(n.short.Needs()), size.Text(memory))
	if best, ok := shelf.Recommend(memory, gpu); ok {
		text += fmt.Sprintf("; the largest that is recommended for it is %s (%s)", best.Name(), hub.Bytes(best.Bytes))
	}
	fmt.Fprintln(os.Stderr, "ridge:", text)
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return nil
	}
	if yes, err := askYes(fmt.Sprintf("Download %s all the same?", hub.Bytes(n.short.Bytes))); err != nil || !yes {
		return cmp.Or(err, errors.New("nothing was downloaded"))
	}
	return nil
}

// looksLikeModel reports whether a word is meant as a model rather than as a prompt: a file or a path, a name of the hub or the shelf or one like those, or name:tag.
func looksLikeModel(word string) (bool, error) {
	if word == "" || strings.ContainsAny(word, " \t\n") && !exists(word) {
		return false, nil
	}
	n, err := lookUp(word, "")
	if err != nil {
		return false, err
	}
	isFile := strings.EqualFold(filepath.Ext(word), ".gguf") || strings.ContainsAny(word, `/\`) || n.name != word
	return isFile || n.ref != nil || tagged(word) || len(shelf.Like(word)) > 0, nil
}

// tagged reports whether a word is name:tag, and no time, address or the like.
func tagged(word string) bool {
	name, tag, ok := strings.Cut(word, ":")
	letter := func(s string) bool { return s != "" && (s[0]|0x20 >= 'a' && s[0]|0x20 <= 'z') }
	return ok && letter(name) && tag != "" && !strings.ContainsAny(tag, ":/,;!?")
}

// unknown is the error for a model that is neither here nor on the shelf.
func unknown(name string) error {
	if like := shelf.Like(name); len(like) > 0 {
		return fmt.Errorf("there is no model %s here, and none of that name is known; there are %s (ridge search), and ridge pull takes ORG/REPO of the Hugging Face hub too", name, strings.Join(like, ", "))
	}
	if tagged(name) {
		return fmt.Errorf("there is no model %s here, and none of that name is known; ridge search lists short names, and ridge pull takes ORG/REPO of the Hugging Face hub too", name)
	}
	return nil // whoever opens it as a file says that there is none
}

// modelPath is where the model is that a command line names: a path, or a model of the hub that was pulled before.
func modelPath(name string) (string, error) {
	n, err := lookUp(name, "")
	if err != nil {
		return "", err
	}
	if err := n.notAsCreated(); err != nil {
		return "", err
	}
	if n.ref == nil {
		if exists(n.name) {
			return n.name, nil
		}
		return n.name, unknown(n.name)
	}
	h, err := newHub()
	if err != nil {
		return "", err
	}
	path, err := h.Find(*n.ref)
	if errors.Is(err, hub.ErrNotHere) {
		if n.short.Family != "" {
			return "", fmt.Errorf("there is no model %s here; pull it with ridge pull %s", n.what(), n.short.Name())
		}
		return "", fmt.Errorf("there is no file or directory %s, and no model of that name was downloaded; for one on the hub: ridge pull %s", n.name, n.name)
	}
	return path, err
}

// fetchedPath is modelPath for commands that download what is not there.
func fetchedPath(ctx context.Context, name, backend string) (string, error) {
	n, err := lookUp(name, backend)
	if err != nil {
		return "", err
	}
	if err := n.notAsCreated(); err != nil {
		return "", err
	}
	if n.ref == nil {
		if exists(n.name) {
			return n.name, nil
		}
		return n.name, unknown(n.name)
	}
	h, err := newHub()
	if err != nil {
		return "", err
	}
	if path, err := h.Find(*n.ref); !errors.Is(err, hub.ErrNotHere) {
		return path, err
	}
	if err := n.hasRoom(backend); err != nil {
		return "", err
	}
	fmt.Fprintf(os.Stderr, "ridge: %s is not on this machine; downloading it from %s\n", n.what(), h.Endpoint)
	return pullModel(ctx, h, *n.ref)
}

// hubRef is the model on the hub that a name means, for commands that are about those alone.
func hubRef(name, backend string) (named, error) {
	n, err := lookUp(name, backend)
	if err != nil {
		return n, err
	}
	if n.ref == nil {
		_, err := hub.ParseRef(n.name) // says what such names are
		if wrong := unknown(n.name); wrong != nil {
			err = wrong
		}
		if err == nil {
			err = fmt.Errorf("%s is a file or folder here already", n.name)
		}
		return n, err
	}
	return n, nil
}
