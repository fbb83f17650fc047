package hub

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/internal/disk"
)

// TestChoose: names as repositories on the hub have them.
func TestChoose(t *testing.T) {
	list := func(names ...string) (files []File) {
		for _, n := range names {
			files = append(files, File{Path: n, Size: 1})
		}
		return files
	}
	bartowski := list("Llama-3.2-1B-Instruct-IQ3_M.gguf", "Llama-3.2-1B-Instruct-Q4_0.gguf", "Llama-3.2-1B-Instruct-Q4_0_4_4.gguf", "Llama-3.2-1B-Instruct-Q4_K_L.gguf",
		"Llama-3.2-1B-Instruct-Q4_K_M.gguf", "Llama-3.2-1B-Instruct-f16.gguf", "Llama-3.2-1B-Instruct.imatrix", "README.md")
	unsloth := list("BF16/X-BF16-00001-of-00002.gguf", "BF16/X-BF16-00002-of-00002.gguf", "X-Q8_0.gguf", "X-UD-Q4_K_XL.gguf", "X-UD-Q8_K_XL.gguf", "mmproj-F16.gguf", "imatrix_unsloth.gguf", "config.json")
	for _, c := range []struct {
		quant string
		files []File
		want  string // the path of the first file, or a part of the error
	}{
		{"", bartowski, "Llama-3.2-1B-Instruct-Q4_K_M.gguf"},
		{"q4_0", bartowski, "Llama-3.2-1B-Instruct-Q4_0.gguf"},
		{"Q4_0_4_4", bartowski, "Llama-3.2-1B-Instruct-Q4_0_4_4.gguf"},
		{"F16", bartowski, "Llama-3.2-1B-Instruct-f16.gguf"},
		{"Llama-3.2-1B-Instruct-IQ3_M.gguf", bartowski, "Llama-3.2-1B-Instruct-IQ3_M.gguf"},
		{"Q4_K", bartowski, "it has F16, IQ3_M, Q4_0, Q4_0_4_4, Q4_K_L, Q4_K_M"},
		{"", unsloth, "X-Q8_0.gguf"},
		{"BF16", unsloth, "BF16/X-BF16-00001-of-00002.gguf"},
		{"UD-Q4_K_XL", unsloth, "X-UD-Q4_K_XL.gguf"},
		{"Q8_K_XL", unsloth, "X-UD-Q8_K_XL.gguf"},
		{"", list("gpt-oss-20b-mxfp4.gguf", "gpt-oss-20b-F16.gguf"), "gpt-oss-20b-mxfp4.gguf"},
		{"", list("stories260K.gguf"), "stories260K.gguf"},
		{"", list("a-Q4_0-00001-of-00003.gguf", "a-Q4_0-00003-of-00003.gguf"), "of the 00003 parts of a-Q4_0-00001-of-00003.gguf there are 2"},
		{"Q8_0", list("config.json", "model.safetensors"), "has no GGUF files to choose Q8_0 from"},
		{"", list("config.json", "pytorch_model.bin"), "only PyTorch weights (pytorch_model.bin)"},
		{"", list("model.safetensors"), "no config.json"},
		{"", list("README.md"), "neither GGUF files nor safetensors"},
		{"", nil, "neither GGUF files nor safetensors"},
	} {
		m, err := choose(Ref{Repo: "a/b", Revision: "main", Quant: c.quant}, c.files)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = m.Files[0].Path
		}
		if got != c.want && (err == nil || !strings.Contains(got, c.want)) {
			t.Errorf("%q of %v: %s; want %s", c.quant, c.files[:min(len(c.files), 2)], got, c.want)
		}
	}
}

// TestSpace: what does not fit on the disk is refused before it is begun.
func TestSpace(t *testing.T) {
	p := &pull{hub: &Hub{Dir: "here"}, ref: Ref{"a/b", "main", ""}, dir: t.TempDir(), model: &Model{Files: []File{{Path: "x.gguf", Size: maxSize, Hash: "00"}}}}
	if _, err := disk.Free(p.dir); err != nil {
		t.Skip("this system does not say how much fits")
	}
	if err := p.checkSpace(); err == nil || !strings.Contains(err.Error(), "a/b needs another 17.6 TB in here, and ") {
		t.Errorf("%v", err)
	}
}

func TestRefs(t *testing.T) {
	for name, want := range map[string]Ref{
		"a/b":                                {"a/b", "main", ""},
		"bartowski/Llama-3.2-1B-GGUF:Q4_K_M": {"bartowski/Llama-3.2-1B-GGUF", "main", "Q4_K_M"},
		"a/b@refs/pr/3:Q8_0":                 {"a/b", "refs/pr/3", "Q8_0"},
	} {
		got, err := ParseRef(name)
		if err != nil || got != want || got.String() != name {
			t.Errorf("%s: %+v %v", name, got, err)
		}
	}
	for _, name := range []string{"", "a", "a/b/c", "/a/b", "./b", "../b", "a/..", "a/b.gguf", "models/x.safetensors", "a/b:", "a/b@", "a/b@../x", "a b/c", "a/b--c", "C:/x", "http://a/b"} {
		if r, err := ParseRef(name); err == nil {
			t.Errorf("%q was taken as %+v", name, r)
		}
	}
}

// FuzzTree: whatever a hub lists, what is chosen of it has names that stay in the cache.
func FuzzTree(f *testing.F) {
	f.Add([]byte(`[{"type": "file", "path": "a-Q4_0.gguf", "size": 3, "oid": "0123456789abcdef0123456789abcdef01234567"}]`))
	f.Add([]byte(`[{"type": "file", "path": "../../a.gguf", "size": -3, "oid": "..", "lfs": {"oid": "x", "size": 1}}]`))
	f.Add([]byte(`[{"type": "file", "path": "b/a-00001-of-00001.gguf", "size": 3, "oid": "", "lfs": {"oid": "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var entries []treeEntry
		if json.Unmarshal(data, &entries) != nil {
			return
		}
		var files []File
		for _, e := range entries {
			if f, err := e.file("a/b"); err == nil {
				files = append(files, f)
			}
		}
		m, err := choose(Ref{Repo: "a/b", Revision: "main"}, files)
		if err != nil {
			return
		}
		for _, f := range m.Files {
			if !filepath.IsLocal(f.Path) || !filepath.IsLocal(f.Hash) || f.Size < 0 {
				t.Errorf("chose %+v", f)
			}
		}
	})
}
