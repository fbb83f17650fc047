// Package source knows how a kernel's CUDA C++ becomes PTX: which compiler, which flags, which targets; and what of the archive is stale.
package source

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Compiler is the clang that the PTX was made with. Its output is the same bytes every time; another version's is not.
const Compiler = "clang-22"

// Targets are the architectures every kernel is compiled for.
var Targets = []string{"sm_80", "sm_90a"}

// flags of every compilation. PTX 8.3 is what drivers from 545 on read. --target is left out: clang wants the host's there.
var flags = []string{"-x", "cuda", "--cuda-device-only", "-nocudainc", "-nocudalib", "--cuda-feature=+ptx83", "-O3", "-S", "-Wall", "-Wno-unused-function"}

// Module is a source file, which is compiled for each target.
type Module struct {
	Name string // its path below the kernels' folder, without .cu: gemm/packed/q4_0
	Hash string // of everything that goes in
	path string
}

// Modules lists the sources below dir, in order of their names.
func Modules(dir string) ([]Module, error) {
	var modules []Module
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".cu" {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		sum := sha256.New()
		fmt.Fprintln(sum, Compiler, flags, Targets)
		if err := addText(sum, path, map[string]bool{}); err != nil {
			return err
		}
		modules = append(modules, Module{Name: strings.TrimSuffix(filepath.ToSlash(name), ".cu"), Hash: hex.EncodeToString(sum.Sum(nil))[:32], path: path})
		return nil
	})
	slices.SortFunc(modules, func(a, b Module) int { return strings.Compare(a.Name, b.Name) })
	return modules, err
}

// include is a line that includes a header, by its path from the file that it stands in. There are no others: clang runs without CUDA's own.
var include = regexp.MustCompile(`(?m)^#include "([^"]+)"$`)

// comment is the rest of a line, with the white space before it; a line of its own goes as a whole. No string of ours has two slashes.
var comment = regexp.MustCompile(`(?m)^[ \t]*//.*\n|[ \t]*//.*$`)

// addText adds the text of a source to a hash, and of the headers that it includes and that these include, each once. Comments are left out: they
// change nothing that the compiler makes.
func addText(sum io.Writer, path string, seen map[string]bool) error {
	if seen[path] {
		return nil
	}
	seen[path] = true
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text = comment.ReplaceAll(text, nil)
	fmt.Fprintln(sum, filepath.Base(path), len(text))
	sum.Write(text)
	for _, m := range include.FindAllSubmatch(text, -1) {
		if err := addText(sum, filepath.Join(filepath.Dir(path), string(m[1])), seen); err != nil {
			return err
		}
	}
	return nil
}

// Compile runs the compiler and returns PTX text.
func (m Module) Compile(target string) ([]byte, error) {
	args := append([]string{"--cuda-gpu-arch=" + target}, flags...)
	cmd := exec.Command(Compiler, append(args, filepath.Base(m.path), "-o", "-")...)
	cmd.Dir = filepath.Dir(m.path)
	var failure strings.Builder
	cmd.Stderr = &failure
	text, err := cmd.Output()
	if err != nil || failure.Len() > 0 { // a warning is an error here
		return nil, fmt.Errorf("compiling %s for %s: %v\n%s", m.Name, target, err, failure.String())
	}
	return text, nil
}
