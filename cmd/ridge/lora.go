package main

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ridge-llm/ridge"
)

// loraFlags are the adapters of run and serve.
type loraFlags struct {
	named []string // NAME=PATH
	dir   string
}

// add adds the flags that all commands with adapters have.
func (f *loraFlags) add(fl *pflag.FlagSet, o *ridge.Options) {
	fl.StringArrayVar(&f.named, "lora", nil, "LoRA adapter, NAME=PATH: a PEFT folder or a GGUF file, and the name by which requests use it; can be given several times")
	fl.IntVar(&o.MaxLoRARank, "max-lora-rank", 0, "largest rank of a LoRA adapter; 0: 64")
}

// addServed adds those of a server.
func (f *loraFlags) addServed(fl *pflag.FlagSet, o *ridge.Options) {
	f.add(fl, o)
	fl.StringVar(&f.dir, "lora-dir", "", "folder of LoRA adapters, each a folder or a .gguf file, which have its name; they are read when they are first used")
	fl.IntVar(&o.MaxLoRAs, "max-loras", 0, "LoRA adapters that a step may use; 0: as many as --lora names, with --lora-dir at least 8")
	fl.IntVar(&o.MaxCPULoRAs, "max-cpu-loras", 0, "LoRA adapters that are kept in host memory; 0: 256")
}

// prepare gives the options room for the adapters, before the model is loaded.
func (f *loraFlags) prepare(o *ridge.Options) {
	if o.MaxLoRAs > 0 {
		return
	}
	if o.MaxLoRAs = min(len(f.named), 64); f.dir != "" {
		o.MaxLoRAs = max(o.MaxLoRAs, 8)
	}
}

// load loads the adapters into a model. It returns their names: those of --lora, in order.
func (f *loraFlags) load(m *ridge.Model) ([]string, error) {
	var names []string
	for _, n := range f.named {
		name, path, ok := strings.Cut(n, "=")
		if !ok {
			return nil, fmt.Errorf("--lora is %q; NAME=PATH is wanted", n)
		}
		if name == m.Name() {
			return nil, fmt.Errorf("--lora gives an adapter the name of the model, %q; choose another", name)
		}
		if err := m.LoadAdapter(name, path, false); err != nil {
			return nil, fmt.Errorf("--lora %s: %w", n, err)
		}
		names = append(names, name)
	}
	if f.dir != "" {
		if _, err := m.AddAdapterDir(f.dir); err != nil {
			return nil, fmt.Errorf("--lora-dir: %w", err)
		}
	}
	return names, nil
}
