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
