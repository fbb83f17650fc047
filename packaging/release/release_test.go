package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var when = time.Unix(1764374400, 0).UTC()

// entries are the files of a tar, and their modes.
func entries(t *testing.T, r io.Reader) (files map[string][]byte, modes map[string]int64) {
	t.Helper()
	files, modes = map[string][]byte{}, map[string]int64{}
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return files, modes
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(tr); err != nil {
			t.Fatal(err)
		}
		modes[h.Name] = h.Mode
		if !h.ModTime.Equal(when) || h.Uid != 0 {
			t.Errorf("%s is of %v and user %d", h.Name, h.ModTime, h.Uid)
		}
	}
}

func unzipped(t *testing.T, data []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

// TestImage follows an image from its index to the program, by digests that are those of the bytes, for each architecture; made twice it is the same.
func TestImage(t *testing.T) {
	dir := t.TempDir()
	programs := map[string]string{}
	for _, arch := range []string{"amd64", "arm64"} {
		programs[arch] = filepath.Join(dir, arch)
		if err := os.WriteFile(programs[arch], []byte("program for "+arch), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "image.tar")
	if err := image(path, "1.2.3", programs, when); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	files, _ := entries(t, bytes.NewReader(data))
	blob := func(d descriptor) []byte {
		t.Helper()
		b, ok := files["blobs/"+strings.Replace(d.Digest, ":", "/", 1)]
		if sum := fmt.Sprintf("sha256:%x", sha256.Sum256(b)); !ok || sum != d.Digest || len(b) != d.Size {
			t.Fatalf("%+v is %d bytes of %s", d, len(b), sum)
		}
		return b
	}
	read := func(b []byte, to any) {
		t.Helper()
		if err := json.Unmarshal(b, to); err != nil {
			t.Fatal(err)
		}
	}
	if string(files["oci-layout"]) != `{"imageLayoutVersion":"1.0.0"}` {
		t.Errorf("%s", files["oci-layout"])
	}
	var top, index struct{ Manifests []descriptor }
	if read(files["index.json"], &top); len(top.Manifests) != 1 || top.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "ridge:1.2.3" {
		t.Fatalf("%s", files["index.json"])
	}
	if read(blob(top.Manifests[0]), &index); len(index.Manifests) != 2 {
		t.Fatalf("%+v", index)
	}
	for i, arch := range []string{"amd64", "arm64"} {
		m := index.Manifests[i]
		if m.Platform == nil || *m.Platform != (platform{arch, "linux"}) || m.MediaType != manifestType {
			t.Errorf("%+v", m)
		}
		var manifest struct {
			Config descriptor
			Layers []descriptor
		}
		read(blob(m), &manifest)
		var config struct {
			Architecture, OS string
			Config           struct{ Entrypoint, Env []string }
			RootFS           struct {
				DiffIDs []string `json:"diff_ids"`
			}
		}
		read(blob(manifest.Config), &config)
		plain := unzipped(t, blob(manifest.Layers[0]))
		if want := fmt.Sprintf("sha256:%x", sha256.Sum256(plain)); config.Architecture != arch || config.OS != "linux" || len(config.RootFS.DiffIDs) != 1 || config.RootFS.DiffIDs[0] != want {
			t.Errorf("%s: %+v, and the layer is %s", arch, config, want)
		}
		root, modes := entries(t, bytes.NewReader(plain))
		entry := strings.TrimPrefix(config.Config.Entrypoint[0], "/")
		if string(root[entry]) != "program for "+arch || modes[entry] != 0o755 {
			t.Errorf("%s: %s is %q with mode %o", arch, entry, root[entry], modes[entry])
		}
	}
	if err := image(path, "1.2.3", programs, when); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(path); err != nil || !bytes.Equal(again, data) {
		t.Errorf("made twice it is another one (%v)", err)
	}
}

// TestArchives: files lie below a folder of the target's name, in a zip for Windows and a tar.gz for others, and SHA256SUMS has what is in the folder.
func TestArchives(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("program"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	for _, x := range targets {
		path, err := archive(out, x, "1.2.3", []file{{x.binary(), program, 0o755}}, when)
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := "ridge-1.2.3-" + x.os + "-" + x.arch
		if x.static {
			name += "-static"
		}
		if x.os == "windows" {
			z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
			if err != nil || len(z.File) != 1 || z.File[0].Name != name+"/ridge.exe" || z.File[0].Mode() != 0o755 {
				t.Errorf("%s: %v", path, err)
			}
			continue
		}
		if files, modes := entries(t, bytes.NewReader(unzipped(t, data))); string(files[name+"/ridge"]) != "program" || modes[name+"/ridge"] != 0o755 {
			t.Errorf("%s has %v", path, files)
		}
	}
	if err := sums(out); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(out, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for _, line := range lines {
		sum, name, _ := strings.Cut(line, "  ")
		if data, err := os.ReadFile(filepath.Join(out, name)); err != nil || fmt.Sprintf("%x", sha256.Sum256(data)) != sum {
			t.Errorf("%s: %v", line, err)
		}
	}
	if len(lines) != len(targets) {
		t.Errorf("%d files for %d targets", len(lines), len(targets))
	}
}

// TestEmpty: a folder with other files than a release's keeps them; an empty one, one that is not there and one with a release are empty afterwards. A system that is not built for is refused
// before anything is made.
func TestEmpty(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "release")
	for range 2 { // not there, and empty
		if err := empty(dir); err != nil {
			t.Fatal(err)
		}
	}
	other := filepath.Join(dir, "thesis.txt")
	if err := os.WriteFile(other, []byte("years"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := release(dir, "", ""); err == nil || !strings.Contains(err.Error(), "where thesis.txt is") {
		t.Errorf("a folder with a file of its own: %v", err)
	}
	if err := release(dir, "", "plan9/mips"); err == nil || !strings.Contains(err.Error(), "plan9/mips") {
		t.Errorf("a system that no release is built for: %v", err)
	}
	if err := errors.Join(os.Rename(other, filepath.Join(dir, "ridge-0.1.0-linux-amd64.tar.gz")), sums(dir), empty(dir)); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}
