package modeldir

import (
	"github.com/ridge-llm/ridge/internal/builtin"
	"github.com/ridge-llm/ridge/weights"
)

// Builtin opens the model that is part of the program.
func Builtin() (*Dir, error) {
	s, err := weights.OpenBytes("the built-in model", builtin.GGUF())
	if err != nil {
		return nil, err
	}
	s.Metadata[TemplateKey] = builtin.Template
	return fromSource(builtin.Name, s)
}

// IsBuiltin reports whether Open takes a name as that of a model that is part of the program, and not as a path.
func IsBuiltin(name string) bool { return name == builtin.Diffusion }

// openWeights opens a path, or the model of the program that it names.
func openWeights(path string) (*weights.Source, error) {
	if IsBuiltin(path) {
		return weights.OpenBytes(path, builtin.DiffusionGGUF())
	}
	return weights.Open(path)
}
