package weights

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/ridge-llm/ridge/internal/regular"
	"github.com/ridge-llm/ridge/weights/gguf"
	"github.com/ridge-llm/ridge/weights/safetensors"
)

// Open opens the model at path: a .gguf file (of a split one, the first part), a directory as Hugging Face lays them
// out, or a single .safetensors file. Only headers and config.json are read. A fault is an error of one sentence that
// names the file and says what to do.
func Open(path string) (*Source, error) {
	stat, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("weights: there is no file or directory %s; give the path of a .gguf file or of a Hugging Face model directory", path)
	case err != nil:
		return nil, fmt.Errorf("weights: %w", err)
	case stat.IsDir():
		return openDir(path)
	}
	head, err := readHead(path)
	if err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	switch ext := filepath.Ext(path); {
	case gguf.IsGGUF(head) || ext == ".gguf":
		return openGGUF(path)
	case ext == ".safetensors":
		return openSafetensors(path)
	case strings.HasSuffix(path, indexSuffix):
		return nil, fmt.Errorf("weights: %s is the index of a sharded model; give its directory, %s", path, filepath.Dir(path))
	case ext == ".bin" || ext == ".pt" || ext == ".pth":
		return nil, fmt.Errorf("weights: %s looks like PyTorch weights, which Ridge does not read; %s", path, useSafetensors)
	}
	return nil, &UnknownFileError{path}
}

// UnknownFileError says that a file is of no kind that Open reads.
type UnknownFileError struct{ Path string }

func (e *UnknownFileError) Error() string {
	return fmt.Sprintf("weights: %s is neither a GGUF nor a .safetensors file; give the path of a .gguf file or of a Hugging Face model directory", e.Path)
}

// readHead is the first bytes of a file, enough to tell what it is.
func readHead(path string) ([]byte, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, 4)
	n, err := io.ReadFull(f, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, err
	}
	return head[:n], nil
}

func openGGUF(path string) (*Source, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	return fromGGUF(f, path), nil
}

func fromGGUF(f *gguf.File, path string) *Source {
	s := &Source{Path: path, Kind: GGUF, Metadata: f.Metadata, Keys: f.Keys, files: f}
	for _, t := range f.Tensors {
		s.tensors = append(s.tensors, tensor{Info{t.Name, t.Format.String(), t.Shape}, t.Format, t.Data})
	}
	s.index()
	return s
}

// openSafetensors opens a lone file; its sidecars, config.json among them, are those of its directory.
func openSafetensors(path string) (*Source, error) {
	config, err := regular.ReadFile(filepath.Join(filepath.Dir(path), configFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("weights: %w", err)
	}
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	return fromSafetensors(f, path, filepath.Dir(path), config), nil
}

func fromSafetensors(f *safetensors.File, path, dir string, config []byte) *Source {
	s := &Source{Path: path, Kind: HuggingFace, Config: config, dir: dir, files: f}
	for _, t := range f.Tensors {
		format, _ := t.DType.Format()
		s.tensors = append(s.tensors, tensor{Info{t.Name, string(t.DType), t.Shape}, format, t.Data})
	}
	s.index()
	return s
}
