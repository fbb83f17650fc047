package ridge

import (
	"fmt"

	"github.com/ridge-llm/ridge/weights/torch"
)

// ReadEmbeddings reads the embeddings of a prompt from what torch.save writes of a tensor of [tokens, width] or [1, tokens, width] in float32, float16, bfloat16 or float64, for
// Params.Embeddings. Nothing of the file is run; a file that describes anything but such a tensor is an ErrInvalidRequest.
func (m *Model) ReadEmbeddings(file []byte) ([]float32, error) {
	t, err := torch.Read(file)
	if err != nil {
		return nil, invalidRequest(err.Error())
	}
	shape := t.Shape
	if len(shape) == 3 && shape[0] == 1 {
		shape = shape[1:]
	}
	if m.width == 0 || len(shape) != 2 || shape[1] != m.width {
		return nil, invalidRequest(fmt.Sprintf("the embeddings of the prompt are a tensor of %v; [tokens, %d] is wanted, the model's hidden size", t.Shape, m.width))
	}
	return t.Numbers, nil
}
