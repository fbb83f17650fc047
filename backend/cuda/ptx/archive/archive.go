// Package archive is the file that all PTX lies in: one zstd frame of its texts, each behind a line that names it. They have much in common, so that
// one frame with a window over all of it takes a third of what a file for each takes; and zstd, unlike xz, expands all in a few tens of milliseconds.
package archive

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Entry is the PTX of a module for a target.
type Entry struct {
	Module, Target string // gemm/packed/q4_0, sm_90a
	Text           []byte
}

// window is how far back the compressor looks, as a power of two: over all of the text.
const window = 27

const marker = "//// " // begins a line that names an entry; PTX has no such line

// Pack compresses entries with the program zstd at its highest level, which the library does not have.
func Pack(entries []Entry) ([]byte, error) {
	var all bytes.Buffer
	for _, e := range entries {
		if bytes.Contains(e.Text, []byte("\n"+marker)) || !bytes.HasSuffix(e.Text, []byte("\n")) {
			return nil, fmt.Errorf("the PTX of %s for %s does not end with a line feed or has a line that begins with %q", e.Module, e.Target, marker)
		}
		fmt.Fprintf(&all, "%s%s %s\n", marker, e.Target, e.Module)
		all.Write(e.Text)
	}
	cmd := exec.Command("zstd", "--ultra", "-22", fmt.Sprint("--long=", window), "--single-thread", "--quiet", "--stdout")
	var packed, failure bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = &all, &packed, &failure
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("compressing the PTX with the program zstd (Debian: apt-get install zstd): %w\n%s", err, failure.String())
	}
	return packed.Bytes(), nil
}

// Unpack expands an archive. The entries' texts share memory.
func Unpack(packed []byte) ([]Entry, error) {
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(1<<window))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	all, err := z.DecodeAll(packed, make([]byte, 0, 20*len(packed)))
	if err != nil {
		return nil, err
	}
	var entries []Entry
	for len(all) > 0 {
		line, rest, ok := bytes.Cut(all, []byte("\n"))
		target, module, named := strings.Cut(strings.TrimPrefix(string(line), marker), " ")
		if !ok || !named || !bytes.HasPrefix(line, []byte(marker)) {
			return nil, errors.New("the archive has a part without a name")
		}
		end := bytes.Index(rest, []byte("\n"+marker)) + 1
		if end == 0 {
			end = len(rest)
		}
		entries = append(entries, Entry{Module: module, Target: target, Text: rest[:end]})
		all = rest[end:]
	}
	return entries, nil
}
