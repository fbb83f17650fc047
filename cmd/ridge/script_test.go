package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"ridge": main})
}

// TestScripts runs the command as a user would; the scripts in testdata/script say what is typed and what must come
// back. $MODELS is the folder of small models with upstream results.
func TestScripts(t *testing.T) {
	models, err := filepath.Abs("../../internal/check/testdata")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("MODELS", models)
			e.Setenv("RIDGE_CPU", os.Getenv("RIDGE_CPU"))
			return nil
		},
	})
}
