package convert

import (
	"fmt"
	"strings"

	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights"
)

// fromGGUF is a GGUF file as it is, with the tensors of some names that get gives, to be written in other formats. It may be of an architecture that
// Ridge does not run.
func fromGGUF(s *weights.Source, names []string, get func(name string) (quant.Tensor, error)) (*file, []string, error) {
	f := &file{meta: map[string]any{}}
	for _, key := range s.Keys {
		if !strings.HasPrefix(key, "split.") { // of the parts that the source came in
			f.set(key, s.Metadata[key])
		}
	}
	lossy := map[quant.Format]bool{}
	for _, name := range names {
		info, known := s.Info(name)
		q, err := get(name)
		if err != nil {
			return nil, nil, err
		}
		if !known {
			info.Shape = []int{q.Rows, q.Cols}
		}
		t := tensor{name: name, shape: info.Shape, format: q.Format, as: q.Format, rows: func(_ []byte, from, to int) []byte { return q.RowSpan(from, to).Data }}
		if before, err := quant.Parse(info.DType); err == nil && before.Block() > 1 && t.quantizable() {
			lossy[before] = true
		}
		f.tensors = append(f.tensors, t)
	}
	if len(lossy) > 0 {
		return f, []string{fmt.Sprintf("%s holds numbers that were rounded to %s before; converting the original weights gives a better file", s.Path, formatNames(lossy))}, nil
	}
	return f, nil, nil
}

// formatNames lists formats in the order of quant's table.
func formatNames(set map[quant.Format]bool) string {
	var list []string
	for _, f := range quant.ReadFormats() {
		if set[f] {
			list = append(list, f.String())
		}
	}
	return strings.Join(list, ", ")
}
