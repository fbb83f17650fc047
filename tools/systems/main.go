// Systems has Go's type checker read the module in the folder above, with its tests, as other systems would compile it: files that are compiled on one
// system only, and names, types and sizes that differ. It needs a small part of the time of compiling all that the module depends on for each of them,
// since the bodies of others' functions are left out; what only an assembler and a linker see, `make systems` does.
//
//	go run -C tools ./systems linux/arm64 darwin/arm64 windows/amd64
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 2 {
		log.Fatal("systems: name the systems, as in linux/arm64")
	}
	for _, system := range os.Args[1:] {
		goos, goarch, ok := strings.Cut(system, "/")
		if !ok {
			log.Fatalf("systems: %q is no system; linux/arm64 is one", system)
		}
		n, err := check("..", goos, goarch)
		if err != nil {
			log.Fatalf("systems: %s: %v", system, err)
		}
		log.Printf("systems: %s: %d packages", system, n)
	}
}

// pkg is what go list says of a package. A package that is compiled with its tests is another.
type pkg struct {
	ImportPath string // that of a package compiled with tests has " [path.test]" behind it
	Name       string
	Dir        string
	GoFiles    []string
	ImportMap  map[string]string // how a path that a file imports is called here, if otherwise
	ForTest    string            // the package with whose tests this one is compiled, or is compiled again since it imports it
	Module     *struct {
		Main      bool
		GoVersion string
	}
}

func (p *pkg) own() bool { return p.Module != nil && p.Module.Main }

// checker has the packages of one system that were checked.
type checker struct {
	files   *token.FileSet
	sizes   types.Sizes
	checked map[string]*types.Package // by ImportPath
}

// check reads all packages of the module in dir for a system, and says how many are its own, tests apart. The error has all that does not compile of the first package
// with such.
func check(dir, goos, goarch string) (own int, err error) {
	sizes := types.SizesFor("gc", goarch)
	if sizes == nil {
		return 0, errors.New("Go knows no such processor")
	}
	list := exec.Command("go", "list", "-deps", "-test", "-json=ImportPath,Name,Dir,GoFiles,ImportMap,ForTest,Module", "./...")
	list.Dir, list.Stderr = dir, os.Stderr
	list.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
	out, err := list.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := list.Start(); err != nil {
		return 0, err
	}
	c := &checker{files: token.NewFileSet(), sizes: sizes, checked: map[string]*types.Package{"unsafe": types.Unsafe}}
	for d := json.NewDecoder(out); ; { // dependencies come first
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return 0, errors.Join(fmt.Errorf("what go list writes cannot be read: %w", err), list.Wait())
		}
		if p.ImportPath == "unsafe" || strings.HasSuffix(p.ImportPath, ".test") { // the main package of tests is generated
			continue
		}
		if p.own() && p.ForTest == "" {
			own++
		}
		if err := c.check(&p); err != nil {
			_ = list.Process.Kill()
			_ = list.Wait()
			return 0, err
		}
	}
	if err := list.Wait(); err != nil {
		return 0, fmt.Errorf("go list: %w", err)
	}
	if own == 0 {
		return 0, errors.New("go list named no package of the module")
	}
	return own, nil
}

// check reads one package.
func (c *checker) check(p *pkg) error {
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(c.files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	var all []error
	path, _, _ := strings.Cut(p.ImportPath, " ")
	conf := types.Config{
		Sizes: c.sizes, IgnoreFuncBodies: !p.own() || p.ForTest != "" && path != p.ForTest && path != p.ForTest+"_test",
		Importer: importer(func(path string) (*types.Package, error) {
			if as, ok := p.ImportMap[path]; ok {
				path = as
			}
			if known := c.checked[path]; known != nil {
				return known, nil
			}
			return nil, fmt.Errorf("go list did not name %s", path)
		}),
		Error: func(err error) { all = append(all, err) },
	}
	if p.Module != nil && p.Module.GoVersion != "" {
		conf.GoVersion = "go" + p.Module.GoVersion
	}
	checked, err := conf.Check(path, c.files, files, nil)
	if err != nil {
		return errors.Join(all...)
	}
	c.checked[p.ImportPath] = checked
	return nil
}

// importer is a types.Importer.
type importer func(path string) (*types.Package, error)

// Import implements types.Importer.
func (f importer) Import(path string) (*types.Package, error) { return f(path) }
