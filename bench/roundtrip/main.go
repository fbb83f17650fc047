// Roundtrip has llama.cpp compute what Ridge writes, and Ridge what llama.cpp writes, and prints a table of how far they are apart. Folders are
// written as GGUF in F32; of GGUF files, whoever wrote them, llama.cpp's logits and greedy tokens become a golden.json that ridge check compares with.
//
//	go run ./bench/roundtrip -ridge ./ridge -logits ./logits -libs /path/to/ggml's/libraries ../shared/reference/architectures/*
//	go run ./bench/roundtrip … -quantize /path/to/llama-quantize -types Q4_0,Q4_K_M model-f32.gguf
//
// With -quantize both write the model in each type; llama.cpp's tool makes floats of that again, which llama.cpp computes (with numbers of few bits it
// would round activations too), and Ridge computes the file itself on its reference backend. llamacpp/logits.cpp says how it is built.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// tools are the programs, and the folder in which files are made.
type tools struct {
	ridge, logits, libs, quantize, work string
}

func main() {
	var t tools
	flag.StringVar(&t.ridge, "ridge", "./ridge", "the program ridge")
	flag.StringVar(&t.logits, "logits", "./logits", "llamacpp/logits.cpp, compiled")
	flag.StringVar(&t.libs, "libs", "", "folder of ggml's CPU libraries")
	flag.StringVar(&t.quantize, "quantize", "", "llama-quantize, for -types")
	types := flag.String("types", "", "number formats, with commas between them")
	flag.Parse()
	if t.libs == "" || flag.NArg() == 0 || (t.quantize == "") != (*types == "") {
		fail(errors.New("give -libs FOLDER and at least one folder or GGUF file, and -quantize with -types"))
	}
	work, err := os.MkdirTemp("", "roundtrip")
	if err != nil {
		fail(err)
	}
	defer os.RemoveAll(work)
	t.work = work
	fmt.Println("| model | written by | worst relative error | greedy tokens the same |\n|---|---|---|---|")
	for _, model := range flag.Args() {
		if *types == "" {
			t.plain(model)
			continue
		}
		for _, kind := range strings.Split(*types, ",") {
			t.quantised(model, kind)
		}
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "roundtrip:", err)
	os.Exit(1)
}

// plain compares a model in floats.
func (t *tools) plain(model string) {
	by, file := "as it is", model
	if !strings.HasSuffix(model, ".gguf") {
		by, file = "ridge", t.file("f32.gguf")
		if err := t.run("", t.ridge, "convert", model, "-o", file, "--type", "F32"); err != nil {
			row(model, by, err.Error(), "")
			return
		}
	}
	t.compare(model, by, file, file, "cpu")
}

// quantised compares a GGUF file in one number format, written by both.
func (t *tools) quantised(model, kind string) {
	file, floats := t.file("quantised.gguf"), t.file("floats.gguf")
	for _, w := range []struct {
		by    string
		write []string
	}{
		{"ridge, " + kind, []string{t.ridge, "convert", model, "-o", file, "--type", kind}},
		{"llama.cpp, " + kind, []string{t.quantize, model, file, kind, "1"}},
	} {
		by := w.by
		err := t.run("", w.write[0], w.write[1:]...)
		if err == nil {
			err = t.run("", t.quantize, "--allow-requantize", file, floats, "F32", "1")
		}
		if err != nil {
			row(model, by, err.Error(), "")
			continue
		}
		t.compare(model, by, file, floats, "ref")
	}
}

// compare has llama.cpp compute one file and Ridge another that should be the same model.
func (t *tools) compare(model, by, file, peers, backend string) {
	golden := t.file("golden.json")
	if err := t.run(golden, t.logits, peers, t.libs); err != nil {
		row(model, by, err.Error(), "")
		return
	}
	result := t.file("result.json")
	err := t.run(result, t.ridge, "check", "--threads", "1", "--backend", backend, "--json", "--golden", t.work, file)
	var r struct {
		Error    float64 `json:"worst_relative_error"`
		Greedy   int     `json:"greedy_tokens"`
		Same     int     `json:"greedy_tokens_same"`
		Compared int     `json:"rows"`
	}
	data, readErr := os.ReadFile(result)
	if wrong := errors.Join(readErr, json.Unmarshal(data, &r)); wrong != nil || r.Compared == 0 {
		row(model, by, fmt.Sprint(errors.Join(err, wrong)), "")
		return
	}
	row(model, by, fmt.Sprintf("%.1e", r.Error), fmt.Sprintf("%d of %d", r.Same, r.Greedy))
}

func (t *tools) file(name string) string { return filepath.Join(t.work, name) }

func row(model, by, result, tokens string) {
	fmt.Printf("| %s | %s | %s | %s |\n", strings.TrimSuffix(filepath.Base(filepath.Clean(model)), ".gguf"), by, result, tokens)
}

// run runs a program for at most two minutes, its output in a file if that has a name; an error has the last lines that it wrote to stderr.
func (t *tools) run(output, program string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, program, args...)
	var said strings.Builder
	c.Stderr = &said
	if output != "" {
		f, err := os.Create(output)
		if err != nil {
			return err
		}
		defer f.Close()
		c.Stdout = f
	}
	err := c.Run()
	if err == nil {
		return nil
	}
	lines := strings.Split(strings.TrimSpace(said.String()), "\n")
	return fmt.Errorf("%s: %w: %s", filepath.Base(program), err, strings.Join(lines[max(0, len(lines)-2):], " "))
}
