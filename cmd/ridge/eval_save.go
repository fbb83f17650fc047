package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ridge-llm/ridge/internal/evaluate"
	"github.com/ridge-llm/ridge/weights"
)

// evaluationsFile is where evaluations of a model lie: in its directory, or beside its file. They are perplexities by the names of quantisations.
func evaluationsFile(model string) string {
	if info, err := os.Stat(model); err == nil && info.IsDir() {
		return filepath.Join(model, "ridge-eval.json")
	}
	return model + ".ridge-eval.json"
}

// readEvaluations reads the evaluations that lie beside a model; none if there is no such file.
func readEvaluations(model string) (map[string]evaluate.Result, error) {
	all := map[string]evaluate.Result{}
	if model == "" {
		return all, nil
	}
	data, err := os.ReadFile(evaluationsFile(model))
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	if err != nil {
		return nil, fmt.Errorf("the evaluations in %s: %w", evaluationsFile(model), err)
	}
	return all, nil
}

// saveEvaluation adds one to them under a name, in the place of an earlier one.
func saveEvaluation(model, name string, r *evaluate.Result) error {
	all, err := readEvaluations(model)
	if err != nil {
		return err
	}
	all[name] = *r
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return weights.WriteFile(evaluationsFile(model), func(w io.Writer) error { _, err := w.Write(append(text, '\n')); return err })
}
