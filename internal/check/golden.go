package check

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/ridge-llm/ridge/weights"
)

// golden is what upstream computed for a model.
type golden struct {
	whole bool // its continuation was computed whole, see runner.whole
	file  string
	cases []goldenCase
}

// goldenCase is one prompt: the logits of all its rows, or of the last alone, and the greedy continuation.
type goldenCase struct {
	prompt []int32
	logits []float32 // [rows, vocab]
	greedy []int32   // what follows the prompt
}

// readGolden reads golden.safetensors of a model's directory, else golden.json.
func readGolden(dir string) (*golden, error) {
	if file := filepath.Join(dir, "golden.safetensors"); exists(file) {
		return goldenTensors(file)
	}
	if file := filepath.Join(dir, "golden.json"); exists(file) {
		return goldenJSON(file)
	}
	return nil, fmt.Errorf("check: %s has neither golden.safetensors nor golden.json to compare with", dir)
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// goldenTensors reads input_ids [n, length], logits [n, length, vocab] and greedy_ids, which continue row 0; of an encoder
// last_hidden_state [n, length, hidden] in place of both.
func goldenTensors(file string) (*golden, error) {
	s, err := weights.Open(file)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	info, ids, err := s.Raw("input_ids")
	if err != nil {
		return nil, err
	}
	var greedy []byte
	logits, err := s.Tensor("last_hidden_state")
	if err != nil {
		if logits, err = s.Tensor("logits"); err != nil {
			return nil, fmt.Errorf("check: %s has neither logits nor last_hidden_state to compare with: %w", file, err)
		}
		if _, greedy, err = s.Raw("greedy_ids"); err != nil {
			return nil, err
		}
	}
	if len(info.Shape) != 2 || info.DType != "I32" || len(ids) != 4*info.Shape[0]*info.Shape[1] || logits.Rows != info.Shape[0]*info.Shape[1] {
		return nil, fmt.Errorf("check: %s: input_ids %v %s and logits of %d rows do not belong together", file, info.Shape, info.DType, logits.Rows)
	}
	g := &golden{file: file}
	length := info.Shape[1]
	for i := range info.Shape[0] {
		c := goldenCase{prompt: int32s(ids[4*i*length : 4*(i+1)*length]), logits: make([]float32, length*logits.Cols)}
		part := logits.RowSpan(i*length, (i+1)*length)
		for j := range c.logits {
			c.logits[j] = math.Float32frombits(binary.LittleEndian.Uint32(part.Data[4*j:]))
		}
		if i == 0 {
			c.greedy = int32s(greedy)
		}
		g.cases = append(g.cases, c)
	}
	return g, nil
}

func int32s(b []byte) []int32 {
	out := make([]int32, len(b)/4)
	for i := range out {
		out[i] = int32(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return out
}

// jsonCase is a case of golden.json; greedy_ids may or may not begin with the prompt.
type jsonCase struct {
	PromptIDs []int32   `json:"prompt_ids"`
	Logits    []float32 `json:"last_prompt_logits"`
	GreedyIDs []int32   `json:"greedy_ids"`
}

// goldenJSON reads one case, or a list of them under "cases".
func goldenJSON(file string) (*golden, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var doc struct {
		jsonCase
		Cases []jsonCase `json:"cases"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("check: %s: %w", file, err)
	}
	if len(doc.PromptIDs) > 0 {
		doc.Cases = append(doc.Cases, doc.jsonCase)
	}
	if len(doc.Cases) == 0 {
		return nil, fmt.Errorf("check: %s holds no case with prompt_ids, last_prompt_logits and greedy_ids", file)
	}
	g := &golden{file: file}
	for i, c := range doc.Cases {
		if len(c.PromptIDs) == 0 || len(c.Logits) == 0 {
			return nil, fmt.Errorf("check: %s: case %d lacks prompt_ids or last_prompt_logits", file, i)
		}
		g.cases = append(g.cases, goldenCase{prompt: c.PromptIDs, logits: c.Logits, greedy: continuation(c.PromptIDs, c.GreedyIDs)})
	}
	return g, nil
}

// continuation is ids without the prompt, if they begin with it.
func continuation(prompt, ids []int32) []int32 {
	if len(ids) < len(prompt) {
		return ids
	}
	for i := range prompt {
		if ids[i] != prompt[i] {
			return ids
		}
	}
	return ids[len(prompt):]
}
