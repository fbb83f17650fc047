package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ridge-llm/ridge/internal/hub"
)

// newHub is the hub that the environment describes.
func newHub() (*hub.Hub, error) { return hub.FromEnvironment("ridge/" + thisBuild().Version) }

// hubName is the model on the hub that a command line names, if it does: what is a path is none.
func hubName(name string) (hub.Ref, bool) {
	if _, err := os.Stat(name); name == "" || err == nil {
		return hub.Ref{}, false
	}
	r, err := hub.ParseRef(name)
	return r, err == nil
}

// namesModel reports whether the first argument of run is a model: a GGUF file, or what looks like one on the hub.
func namesModel(arg string) bool {
	if strings.EqualFold(filepath.Ext(arg), ".gguf") && !strings.ContainsAny(arg, " \n") {
		return true
	}
	_, ok := hubName(arg)
	return ok
}

// modelPath is where the model is that a command line names: a path, or a model of the hub that was pulled before.
func modelPath(name string) (string, error) {
	r, ok := hubName(name)
	if !ok {
		return name, nil
	}
	h, err := newHub()
	if err != nil {
		return "", err
	}
	path, err := h.Find(r)
	if errors.Is(err, hub.ErrNotHere) {
		return "", fmt.Errorf("there is no file or directory %s, and no model of that name was downloaded; for one on the hub: ridge pull %s", name, name)
	}
	return path, err
}

// fetchedPath is modelPath for commands that download what is not there.
func fetchedPath(ctx context.Context, name string) (string, error) {
	r, ok := hubName(name)
	if !ok {
		return name, nil
	}
	h, err := newHub()
	if err != nil {
		return "", err
	}
	if path, err := h.Find(r); !errors.Is(err, hub.ErrNotHere) {
		return path, err
	}
	fmt.Fprintf(os.Stderr, "ridge: %s is not on this machine; downloading it from %s\n", r, h.Endpoint)
	return pullModel(ctx, h, r)
}
