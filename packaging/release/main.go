// Release builds what a release has, in a folder: an archive of the program for every system, with completions and manual pages, an image of the static program for containers, and SHA256SUMS of all. The same commit
// gives the same bytes. It needs nothing but Go.
package main

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// target is a system that a release is built for.
type target struct {
	os, arch string
	static   bool // without CUDA: the program runs in an empty container
}

var targets = []target{
	{"linux", "amd64", false}, {"linux", "arm64", false}, {"linux", "amd64", true}, {"linux", "arm64", true},
	{"darwin", "arm64", false}, {"darwin", "amd64", false}, {"windows", "amd64", false},
}

// name is what the target's files are called.
func (t target) name(version string) string {
	s := fmt.Sprintf("ridge-%s-%s-%s", version, t.os, t.arch)
	if t.static {
		s += "-static"
	}
	return s
}

// binary is the name of the program there.
func (t target) binary() string {
	if t.os == "windows" {
		return "ridge.exe"
	}
	return "ridge"
}

func main() {
	out := flag.String("o", ".out/release", "folder to write to")
	version := flag.String("version", "", "version that the program says; default: its own")
	only := flag.String("only", "", "build for one system alone, as linux/amd64; default: all")
	flag.Parse()
	if err := release(*out, *version, *only); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release builds all of it.
func release(out, version, only string) error {
	when, err := commitTime()
	if err != nil {
		return err
	}
	if only != "" && !slices.ContainsFunc(targets, func(t target) bool { return only == t.os+"/"+t.arch }) {
		return fmt.Errorf("-only is %q, for which no release is built; linux/amd64 is such a system", only)
	}
	if err := empty(out); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "ridge-release-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	own := filepath.Join(work, "own", target{os: runtime.GOOS}.binary())
	if err := build(target{os: runtime.GOOS, arch: runtime.GOARCH}, version, own); err != nil {
		return err
	}
	if version == "" {
		text, err := exec.Command(own, "version").Output()
		if err != nil {
			return fmt.Errorf("the program's version: %w", err)
		}
		version = strings.Fields(string(text))[1]
	}
	extras, err := documents(own, filepath.Join(work, "documents"))
	if err != nil {
		return err
	}
	static := map[string]string{} // programs by architecture
	for _, t := range targets {
		if only != "" && only != t.os+"/"+t.arch {
			continue
		}
		program := filepath.Join(work, t.name(version), t.binary())
		if err := build(t, version, program); err != nil {
			return err
		}
		if t.static {
			static[t.arch] = program
		}
		path, err := archive(out, t, version, append([]file{{t.binary(), program, 0o755}}, extras...), when)
		if err != nil {
			return err
		}
		fmt.Println(path)
	}
	if len(static) > 0 {
		path := filepath.Join(out, "ridge-"+version+"-oci.tar")
		if err := image(path, version, static, when); err != nil {
			return err
		}
		fmt.Println(path)
	}
	return sums(out)
}

// empty makes a folder, or empties one that a release is in: any other keeps what it has.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if e.Name() != sumsFile && !strings.HasPrefix(e.Name(), "ridge-") {
			return fmt.Errorf("-o is %s, where %s is, which no release has; name a folder that is empty or not there", dir, e.Name())
		}
	}
	return errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755))
}

// build makes the program of a target.
func build(t target, version, to string) error {
	args := []string{"build", "-trimpath", "-o", to, "-ldflags", "-s -w"}
	if version != "" {
		args[len(args)-1] += " -X main.version=v" + strings.TrimPrefix(version, "v")
	}
	if t.static {
		args = append(args, "-tags", "nocuda")
	}
	cmd := exec.Command("go", append(args, "./cmd/ridge")...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+t.os, "GOARCH="+t.arch)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building for %s/%s: %w\n%s", t.os, t.arch, err, text)
	}
	return nil
}

// documents are the files beside the program: completions and manual pages, which the program of this system writes, and those of the repository.
func documents(program, dir string) (all []file, err error) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		path := filepath.Join(dir, shell)
		text, err := exec.Command(program, "completion", shell).Output()
		if err == nil {
			err = errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(path, text, 0o644))
		}
		if err != nil {
			return nil, fmt.Errorf("completions for %s: %w", shell, err)
		}
		all = append(all, file{"completions/ridge." + shell, path, 0o644})
	}
	if text, err := exec.Command(program, "man", filepath.Join(dir, "man1")).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("manual pages: %w\n%s", err, text)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "man1", "*.1"))
	for _, path := range append([]string{"LICENSE", "README.md", "MODELS.md", "CHANGELOG.md"}, pages...) {
		name := filepath.Base(path)
		if strings.HasSuffix(name, ".1") {
			name = "man1/" + name
		}
		all = append(all, file{name, path, 0o644})
	}
	return all, err
}

// commitTime is when the commit was made that is checked out: the time of all that is in archives.
func commitTime() (time.Time, error) {
	text, err := exec.Command("git", "log", "-1", "--format=%ct").Output()
	if err != nil {
		return time.Time{}, fmt.Errorf("the time of the commit: %w", err)
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return time.Unix(seconds, 0).UTC(), err
}

// sumsFile is what the sums of a release are in.
const sumsFile = "SHA256SUMS"

// sums writes them, as sha256sum -c reads them.
func sums(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%x  %s\n", sha256.Sum256(data), e.Name())
	}
	return os.WriteFile(filepath.Join(dir, sumsFile), []byte(text.String()), 0o644)
}
