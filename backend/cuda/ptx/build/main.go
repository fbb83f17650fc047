// Command build compiles the kernels to PTX and packs it into the archive in the folder above this one. Run it as "make ptx".
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/ridge-llm/ridge/backend/cuda/ptx/archive"
	"github.com/ridge-llm/ridge/backend/cuda/ptx/source"
)

func main() {
	if err := build(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// build compiles modules whose sources have changed and takes the others from the archive.
func build() error {
	const packedFile, sumsFile = "kernels.ptx.zst", "kernels.txt"
	modules, err := source.Modules("../kernels")
	if err != nil {
		return err
	}
	old, sums, err := read(packedFile, sumsFile)
	if err != nil {
		return err
	}
	if stale, gone := sums.Stale(modules); len(stale)+len(gone) == 0 {
		fmt.Println("all PTX is of the kernels as they are")
		return nil
	}
	entries, err := compile(modules, old, sums)
	if err != nil {
		return err
	}
	packed, err := archive.Pack(entries)
	if err != nil {
		return err
	}
	made := source.Sums{}
	for i, m := range modules {
		s := source.Sum{Source: m.Hash}
		for t := range source.Targets {
			s.PTX = append(s.PTX, source.TextSum(entries[t*len(modules)+i].Text))
		}
		made[m.Name] = s
	}
	if err := os.WriteFile(packedFile, packed, 0o644); err != nil {
		return err
	}
	return os.WriteFile(sumsFile, []byte(made.String()), 0o644)
}

// read reads the archive and its sums; without one they are empty.
func read(packedFile, sumsFile string) (map[string][]byte, source.Sums, error) {
	packed, err := os.ReadFile(packedFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, source.Sums{}, nil
	} else if err != nil {
		return nil, nil, err
	}
	text, err := os.ReadFile(sumsFile)
	if err != nil {
		return nil, nil, err
	}
	sums, err := source.ParseSums(string(text))
	if err != nil {
		return nil, nil, err
	}
	entries, err := archive.Unpack(packed)
	old := map[string][]byte{}
	for _, e := range entries {
		old[e.Target+" "+e.Module] = e.Text
	}
	return old, sums, err
}

// compile gives all modules for each target in turn.
func compile(modules []source.Module, old map[string][]byte, sums source.Sums) ([]archive.Entry, error) {
	entries := make([]archive.Entry, len(source.Targets)*len(modules))
	var group errgroup.Group
	group.SetLimit(runtime.NumCPU())
	for t, target := range source.Targets {
		for i, m := range modules {
			e := &entries[t*len(modules)+i]
			*e = archive.Entry{Module: m.Name, Target: target, Text: old[target+" "+m.Name]}
			if e.Text != nil && sums[m.Name].Source == m.Hash {
				continue
			}
			group.Go(func() (err error) {
				e.Text, err = m.Compile(target)
				return err
			})
		}
	}
	return entries, group.Wait()
}
