// Command build compiles the kernels to PTX, in the folder above this one. Run it as "go generate ./backend/cuda/ptx".
package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/ridge-llm/ridge/backend/cuda/ptx/source"
)

func main() {
	if err := build(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// build compiles what has changed and leaves the rest.
func build() error {
	jobs, err := source.Jobs("../kernels")
	if err != nil {
		return err
	}
	for _, j := range jobs {
		if old, err := os.ReadFile(j.File()); err == nil {
			if origin, err := source.Origin(bytes.NewReader(old)); err == nil && origin == j.Origin() {
				continue
			}
		}
		text, err := j.Compile()
		if err != nil {
			return err
		}
		packed, err := j.Pack(text)
		if err != nil {
			return err
		}
		if err := os.WriteFile(j.File(), packed, 0o644); err != nil {
			return err
		}
	}
	return nil
}
