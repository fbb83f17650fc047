package weights

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/internal/testkit/tensorfile"
	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights/gguf"
)

// counting is n bytes: 0, 1, 2 …
func counting(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

func bytesOf(n int) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(counting(n))
		return err
	}
}

func writeGGUF(t *testing.T, path string) {
	t.Helper()
	err := WriteFile(path, func(w io.Writer) error {
		return gguf.Write(w, []string{"general.name"}, map[string]any{"general.name": "tiny"}, []gguf.Output{
			{Name: "experts", Format: quant.Q4_0, Shape: []int{2, 3, 64}, Data: bytesOf(6 * 36)},
			{Name: "norm", Format: quant.F32, Shape: []int{4}, Data: bytesOf(16)},
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}

func writeSafetensors(t *testing.T, path string) {
	t.Helper()
	err := tensorfile.Write(path, []tensorfile.Tensor{
		{Name: "w", DType: "BF16", Shape: []int{2, 3}, Data: counting(12)},
		{Name: "one", DType: "F32", Data: counting(4)},
		{Name: "ids", DType: "I32", Shape: []int{2}, Data: counting(8)},
		{Name: "none", DType: "F32", Shape: []int{0, 2}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestOpenGGUF(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tiny.model") // the contents decide, not the name
	writeGGUF(t, path)
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.Kind != GGUF || s.Metadata["general.name"] != "tiny" || !slices.Equal(s.Keys, []string{"general.name"}) || !slices.Equal(s.Names(), []string{"experts", "norm"}) {
		t.Errorf("kind %s, metadata %v, names %q", s.Kind, s.Metadata, s.Names())
	}
	m, err := s.Tensor("experts")
	if err != nil || m.Rows != 6 || m.Cols != 64 || m.Format != quant.Q4_0 || m.Row(1)[0] != 36 {
		t.Errorf("experts: %d × %d in %s, %v", m.Rows, m.Cols, m.Format, err)
	}
	if info, ok := s.Info("experts"); !ok || info.DType != "Q4_0" || !slices.Equal(info.Shape, []int{2, 3, 64}) {
		t.Errorf("experts: %v", info)
	}
	if m, err := s.Tensor("norm"); err != nil || m.Rows != 1 || m.Cols != 4 {
		t.Errorf("norm: %d × %d, %v", m.Rows, m.Cols, err)
	}
	wantError(t, errOf(s.Tensor("nrom")), "weights: "+path+`: there is no tensor "nrom" among its 2`)
	_, err = s.Sidecar("tokenizer.json")
	wantError(t, err, "weights: "+path+" is a GGUF file and has no tokenizer.json: file does not exist")
}

func errOf(_ any, err error) error { return err }

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestOpenDirectory(t *testing.T) {
	dir := t.TempDir()
	writeSafetensors(t, dir+"/model.safetensors")
	writeSafetensors(t, dir+"/other.safetensors") // not part of the model
	write(t, dir+"/config.json", `{"model_type":"x"}`)
	write(t, dir+"/tokenizer.json", `{}`)
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.Kind != HuggingFace || string(s.Config) != `{"model_type":"x"}` || len(s.Names()) != 4 {
		t.Errorf("kind %s, config %s, names %q", s.Kind, s.Config, s.Names())
	}
	if m, err := s.Tensor("w"); err != nil || m.Rows != 2 || m.Cols != 3 || m.Format != quant.BF16 || m.Data[11] != 11 {
		t.Errorf("w: %v, %v", m, err)
	}
	if m, err := s.Tensor("one"); err != nil || m.Rows != 1 || m.Cols != 1 {
		t.Errorf("one: %v, %v", m, err)
	}
	if info, data, err := s.Raw("ids"); err != nil || info.DType != "I32" || len(data) != 8 {
		t.Errorf("ids: %v, %v, %v", info, data, err)
	}
	wantError(t, errOf(s.Tensor("ids")), "weights: "+dir+`: tensor "ids" is in I32, which holds no weights Ridge can read`)
	wantError(t, errOf(s.Tensor("none")), "weights: "+dir+`: tensor "none": quant: a tensor cannot be 0 × 2`)
	if text, err := s.Sidecar("tokenizer.json"); err != nil || string(text) != "{}" {
		t.Errorf("tokenizer.json: %s, %v", text, err)
	}
	_, err = s.Sidecar("chat_template.jinja")
	wantError(t, err, "weights: the model at "+dir+" has no chat_template.jinja: file does not exist")
	if !errors.Is(err, fs.ErrNotExist) {
		t.Error("a missing sidecar is not fs.ErrNotExist")
	}
}

func TestOpenShardsAndLoneFiles(t *testing.T) {
	dir := t.TempDir()
	writeSafetensors(t, dir+"/part.safetensors")
	alone, err := Open(dir + "/part.safetensors") // a file needs no config
	if err != nil {
		t.Fatal(err)
	}
	if alone.Config != nil || len(alone.Names()) != 4 {
		t.Errorf("config %s, names %q", alone.Config, alone.Names())
	}
	alone.Close()
	write(t, dir+"/config.json", `{}`)
	for _, index := range []string{"", `{"weight_map":{"w":"part.safetensors"}}`} { // the only file there is, then by index
		if index != "" {
			write(t, dir+"/model.safetensors.index.json", index)
		}
		s, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if want := map[bool]int{true: 4, false: 1}[index == ""]; len(s.Names()) != want || string(s.Config) != "{}" {
			t.Errorf("index %q: names %q", index, s.Names())
		}
		s.Close()
	}
}

func TestOpenFaults(t *testing.T) {
	const get = "get the model as safetensors, or save it so with transformers' save_pretrained"
	for _, c := range []struct {
		files string // made in the directory
		open  string // relative to it
		want  string // DIR stands for the directory
	}{
		{"", "none", "weights: there is no file or directory DIR/none; give the path of a .gguf file or of a Hugging Face model directory"},
		{"", "", "weights: the directory DIR is empty; give a .gguf file or a Hugging Face model directory"},
		{"config.json", "", "weights: DIR has no weights: no .safetensors file is in it; give a .gguf file or a Hugging Face model directory"},
		{"config.json pytorch_model.bin", "", "weights: DIR has only PyTorch weights (pytorch_model.bin), which Ridge does not read; " + get},
		{"a.gguf b.gguf", "", "weights: DIR holds GGUF files; give one of them: a.gguf, b.gguf"},
		{"config.json a.safetensors b.safetensors", "", "weights: DIR has 2 .safetensors files but neither model.safetensors nor model.safetensors.index.json; get the index that belongs to them, or give one of the files"},
		{"model.safetensors", "", "weights: DIR has weights but no config.json, which says what model they are; get it from where the weights came from"},
		{"config.json model.safetensors", "", "safetensors: DIR/model.safetensors: it has 2 bytes, too few for a safetensors file; it is truncated or something else"},
		{"config.json model.safetensors.index.json", "", `safetensors: DIR/model.safetensors.index.json: it has no tensors in "weight_map"`},
		{"model.bin", "model.bin", "weights: DIR/model.bin looks like PyTorch weights, which Ridge does not read; " + get},
		{"model.safetensors.index.json", "model.safetensors.index.json", "weights: DIR/model.safetensors.index.json is the index of a sharded model; give its directory, DIR"},
		{"notes.txt", "notes.txt", "weights: DIR/notes.txt is neither a GGUF nor a .safetensors file; give the path of a .gguf file or of a Hugging Face model directory"},
		{"m.gguf", "m.gguf", `gguf: DIR/m.gguf: it begins with "{}", not with "GGUF": it is not a GGUF file`},
		{"m.safetensors", "m.safetensors", "safetensors: DIR/m.safetensors: it has 2 bytes, too few for a safetensors file; it is truncated or something else"},
	} {
		dir := t.TempDir()
		for _, name := range strings.Fields(c.files) {
			write(t, filepath.Join(dir, name), "{}")
		}
		_, err := Open(filepath.Join(dir, c.open))
		wantError(t, err, strings.ReplaceAll(c.want, "DIR", dir))
	}
}

func TestWriteFileIsAllOrNothing(t *testing.T) {
	dir := t.TempDir()
	path := dir + "/m.gguf"
	write(t, path, "old")
	err := WriteFile(path, func(w io.Writer) error {
		io.WriteString(w, "half of the n")
		return errors.New("disk on fire")
	})
	wantError(t, err, "weights: "+path+": disk on fire")
	list, _ := os.ReadDir(dir)
	if text, _ := os.ReadFile(path); string(text) != "old" || len(list) != 1 {
		t.Errorf("a failed write left %q and %d files", text, len(list))
	}
	if err := WriteFile(dir+"/none/m.gguf", bytesOf(3)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("writing into a missing directory gave %v", err)
	}
}
