package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/ridge-llm/ridge/internal/builtin"
	"github.com/ridge-llm/ridge/internal/testkit/fakehub"
)

func TestMain(m *testing.M) {
	if _, given := os.LookupEnv("RIDGE_THREADS"); !given {
		os.Setenv("RIDGE_THREADS", "1") // on a busy machine threads of small models mostly wait for each other
	}
	testscript.Main(m, map[string]func(){"ridge": main})
}

// TestScripts runs the command as a user would; the scripts in testdata/script say what is typed and what must come
// back. $MODELS is the folder of small models with upstream results, $DEMO the built-in model and $ADAPTERS the folder of adapters for it, $LIBCUDA a stand-in for NVIDIA's driver; the hub that models are pulled from has the built-in one.
func TestScripts(t *testing.T) {
	models, err := filepath.Abs("../../internal/check/testdata")
	if err != nil {
		t.Fatal(err)
	}
	libcuda, err := filepath.Abs("../../backend/cuda/driver/testdata/libcuda.c")
	if err != nil {
		t.Fatal(err)
	}
	hub := fakehub.New(t, map[string][]byte{"model-Q8_0.gguf": builtin.GGUF(), "README.md": nil})
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("MODELS", models)
			e.Setenv("ADAPTERS", filepath.Join(models, "../../../adapters"))
			e.Setenv("DEMO", filepath.Join(models, "../../builtin/demo.gguf"))
			e.Setenv("LIBCUDA", libcuda)
			e.Setenv("HF_ENDPOINT", hub.URL)
			e.Setenv("HF_HOME", filepath.Join(e.WorkDir, "hf"))
			e.Setenv("RIDGE_CPU", os.Getenv("RIDGE_CPU"))
			return nil
		},
	})
}
