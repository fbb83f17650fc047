package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ridge-llm/ridge/internal/convert"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/internal/quantize"
	"github.com/ridge-llm/ridge/internal/quantize/imatrix"
)

// imatrixMethod is the method of types of GGUF whose errors are counted by an importance matrix.
const imatrixMethod = "imatrix"

// typeOfBits is the type for so many bits when none is named.
var typeOfBits = map[int]string{2: "Q2_K", 3: "Q3_K_M", 4: "Q4_K_M", 5: "Q5_K_M", 6: "Q6_K", 8: "Q8_0"}

// runImatrix gathers or reads importances, and writes a GGUF file by them.
func (f *quantizeFlags) runImatrix(cmd *cobra.Command, dir *modeldir.Dir, length int) error {
	name := f.typeName
	if name == "" {
		name = typeOfBits[f.o.Grid.Bits]
	}
	if name == "" {
		return fmt.Errorf("quantize: GGUF has no type of %d bits; 2, 3, 4, 5, 6 and 8 are possible, or a --type", f.o.Grid.Bits)
	}
	t, err := convert.ParseType(name)
	if err != nil {
		return err
	}
	if !strings.HasSuffix(f.out, ".gguf") {
		return fmt.Errorf("quantize: imatrix writes GGUF files; give -o a name that ends in .gguf instead of %s", f.out)
	}
	m, err := f.importances(cmd, dir, length)
	if err != nil {
		return err
	}
	if f.imatrixOut != "" {
		if err := m.Write(f.imatrixOut); err != nil {
			return err
		}
	}
	p := newProgress(os.Stderr)
	r, err := convert.Dir(cmd.Context(), dir, f.out, convert.Options{Type: t, Ends: f.o.Ends, Progress: p.report, Importance: func(name string) []float32 {
		if e, ok := m.Entries[name]; ok {
			return e.Means()
		}
		return nil
	}})
	p.clear()
	return printResult(cmd, r, f.out, err)
}

// importances reads the importance matrix, or gathers it.
func (f *quantizeFlags) importances(cmd *cobra.Command, dir *modeldir.Dir, length int) (*imatrix.Matrix, error) {
	if f.imatrix != "" {
		return imatrix.Read(f.imatrix)
	}
	seqs, err := quantize.Sequences(dir, f.calib, f.samples, length)
	if err != nil {
		return nil, err
	}
	show := newQuantizeProgress(os.Stderr, cmd.ErrOrStderr())
	o := f.o
	o.Progress = show.report
	m, err := quantize.Importance(cmd.Context(), dir, seqs, o)
	show.clear()
	if err == nil {
		m.Datasets = []string{f.calib}
	}
	return m, err
}
