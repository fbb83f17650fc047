package weights

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/ridge-llm/ridge/internal/regular"
	"github.com/ridge-llm/ridge/weights/safetensors"
)

// The names of a Hugging Face directory.
const (
	configFile  = "config.json"
	weightsFile = "model.safetensors"
	indexSuffix = ".safetensors.index.json"
	indexFile   = "model" + indexSuffix
)

const useSafetensors = "get the model as safetensors, or save it so with transformers' save_pretrained"

// openDir opens a Hugging Face directory.
func openDir(dir string) (*Source, error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	names := make([]string, len(list))
	for i, e := range list {
		names[i] = e.Name()
	}
	open, file, err := pickWeights(dir, names)
	if err != nil {
		return nil, err
	}
	config, err := regular.ReadFile(filepath.Join(dir, configFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("weights: %s has weights but no %s, which says what model they are; get it from where the weights came from", dir, configFile)
	}
	if err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	f, err := open(filepath.Join(dir, file))
	if err != nil {
		return nil, err
	}
	return fromSafetensors(f, dir, dir, config), nil
}

// pickWeights chooses the weights among the files of a directory: the index of a sharded set, model.safetensors, or the
// only .safetensors file there is. Where there is none, the error says what is there instead.
func pickWeights(dir string, names []string) (open func(string) (*safetensors.File, error), file string, err error) {
	has := map[string]bool{}
	var loose, ggufs, pickles []string
	for _, name := range names {
		has[name] = true
		switch filepath.Ext(name) {
		case ".safetensors":
			loose = append(loose, name)
		case ".gguf":
			ggufs = append(ggufs, name)
		case ".bin", ".pt", ".pth":
			pickles = append(pickles, name)
		}
	}
	switch {
	case has[indexFile]:
		return safetensors.OpenIndex, indexFile, nil
	case has[weightsFile]:
		return safetensors.Open, weightsFile, nil
	case len(loose) == 1:
		return safetensors.Open, loose[0], nil
	case len(loose) > 1:
		err = fmt.Errorf("weights: %s has %d .safetensors files but neither %s nor %s; get the index that belongs to them, or give one of the files", dir, len(loose), weightsFile, indexFile)
	case len(ggufs) > 0:
		err = fmt.Errorf("weights: %s holds GGUF files; give one of them: %s", dir, strings.Join(ggufs, ", "))
	case len(pickles) > 0:
		err = fmt.Errorf("weights: %s has only PyTorch weights (%s), which Ridge does not read; %s", dir, pickles[0], useSafetensors)
	case len(names) == 0:
		err = fmt.Errorf("weights: the directory %s is empty; give a .gguf file or a Hugging Face model directory", dir)
	default:
		err = fmt.Errorf("weights: %s has no weights: no .safetensors file is in it; give a .gguf file or a Hugging Face model directory", dir)
	}
	return nil, "", err
}

// Sidecar reads a file that lies beside the weights of a Hugging Face model: tokenizer.json, tokenizer_config.json,
// generation_config.json, chat_template.jinja. For one that is missing, errors.Is(err, fs.ErrNotExist) holds, which is
// also what every sidecar of a GGUF file gives: such a file carries everything in its metadata.
func (s *Source) Sidecar(name string) ([]byte, error) {
	if s.Kind == GGUF {
		return nil, fmt.Errorf("weights: %s is a GGUF file and has no %s: %w", s.Path, name, fs.ErrNotExist)
	}
	data, err := regular.ReadFile(filepath.Join(s.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("weights: the model at %s has no %s: %w", s.dir, name, fs.ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	s.beside.read(name, data)
	return data, nil
}
