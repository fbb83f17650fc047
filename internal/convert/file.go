package convert

import (
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"

	"github.com/ridge-llm/ridge/quant"
)

// file is a GGUF file to be written.
type file struct {
	keys    []string
	meta    map[string]any
	tensors []tensor
}

// tensor is one of its tensors. rows reads its rows [from, to) in format, in buf or as a window into the source;
// buf has room for them. It is called from several goroutines.
type tensor struct {
	name   string
	shape  []int        // slowest dimension first
	format quant.Format // in the source
	as     quant.Format // in the file to be written
	rows   func(buf []byte, from, to int) []byte

	change     func(numbers []float32, from int) error // changes rows from one on; nil: they are written as they are
	importance []float32                               // of columns, of each matrix; nil: all alike
}

// weigh gives matrices their importances. Importances of which none is of a matrix of the file are refused.
func (f *file) weigh(of func(name string) []float32) error {
	if of == nil {
		return nil
	}
	known := false
	for i := range f.tensors {
		t := &f.tensors[i]
		if !t.quantizable() {
			continue
		}
		rows, cols := t.size()
		t.importance = of(t.name)
		known = known || len(t.importance) > 0
		if n := len(t.importance); n != 0 && (n%cols != 0 || rows%(n/cols) != 0) {
			return fmt.Errorf("convert: the importances of tensor %s are %d numbers, which do not fit its %d rows of %d; they are of another model", t.name, n, rows, cols)
		}
	}
	if !known {
		return errors.New("convert: no matrix of the file has importances; they are of another model, or under other names than GGUF's")
	}
	return nil
}

// importanceOf is the importances of a row's columns; nil: all alike.
func (t *tensor) importanceOf(row int) []float32 {
	if len(t.importance) == 0 {
		return nil
	}
	rows, cols := t.size()
	matrix := row / (rows / (len(t.importance) / cols))
	return t.importance[matrix*cols : (matrix+1)*cols]
}

// size is the tensor as a matrix: the last dimension makes the columns.
func (t *tensor) size() (rows, cols int) {
	rows, cols = 1, t.shape[len(t.shape)-1]
	for _, n := range t.shape[:len(t.shape)-1] {
		rows *= n
	}
	return rows, cols
}

// bytes is the tensor's size in the file.
func (t *tensor) bytes() int64 {
	rows, cols := t.size()
	return int64(rows) * t.as.RowBytes(cols)
}

// quantizable reports whether a type's formats apply to a tensor: they do to matrices that rows are multiplied with.
// The others are small, and precise for little.
func (t *tensor) quantizable() bool {
	name, weight := strings.CutSuffix(t.name, ".weight")
	return weight && len(t.shape) > 1 && !strings.Contains(name, "norm") && name != "position_embd" && name != "per_layer_model_proj" &&
		!strings.HasSuffix(name, "ffn_gate_inp") && !strings.Contains(name, "ssm_conv1d") && !strings.HasSuffix(name, "shortconv.conv") && !strings.Contains(name, "altup") && !strings.Contains(name, "laurel")
}

// stem is the name without layer and ".weight": "attn_v", "token_embd"; of experts' matrices what a single block's is called.
func (t *tensor) stem() string {
	name := strings.TrimSuffix(strings.TrimSuffix(t.name, ".weight"), "_exps")
	return name[strings.LastIndex(name, ".")+1:]
}

// choose gives every tensor its format, by rules that ask whether importances are known, and says in sentences where rows did not fit into the wanted one.
func (f *file) choose(t Type, ends Ends, importances bool) (notes []string) {
	layers, tied := f.structure()
	group := f.group()
	misfits := map[string]int{}
	most := map[quant.Format]int64{}
	for i := range f.tensors {
		x := &f.tensors[i]
		if !x.quantizable() {
			continue
		}
		rows, cols := x.size()
		m := matrix{name: x.stem(), layers: layers, group: group, experts: f.count("expert_count"), importances: importances}
		m.layer, _ = layerOf(x.name)
		m.output = m.name == "output" || tied && isEmbedding(m)
		want := ends.of(m)
		if want == quant.Invalid && t.Format != quant.Invalid {
			want = t.of(m)
		}
		if want != quant.Invalid {
			if x.as = formatFor(want, cols); x.as != want {
				misfits[fmt.Sprintf("rows of %d numbers do not divide into %s blocks of %d: %s instead", cols, want, want.Block(), x.as)]++
			}
		}
		most[x.as] += int64(rows) * int64(cols)
	}
	f.set("general.file_type", t.fileType(most))
	f.set("general.quantization_version", uint32(2))
	for what, n := range misfits {
		notes = append(notes, fmt.Sprintf("%s: %s", counted(n), what))
	}
	sort.Strings(notes)
	return notes
}

// structure is the number of layers by the names of the tensors, and whether the embedding is the output matrix too.
func (f *file) structure() (layers int, tied bool) {
	tied = true
	for i := range f.tensors {
		if n, ok := layerOf(f.tensors[i].name); ok {
			layers = max(layers, n+1)
		}
		tied = tied && f.tensors[i].name != "output.weight"
	}
	return layers, tied
}

// fileType is the type's number, or for a file whose matrices are kept that of the format most of them are in.
func (t Type) fileType(most map[quant.Format]int64) uint32 {
	if t.Format != quant.Invalid {
		return t.id
	}
	best := quant.F32
	for _, f := range quant.ReadFormats() {
		if most[f] > most[best] {
			best = f
		}
	}
	return best.Descriptor().GGUF.File
}

// set sets a metadata key, behind the others if it is new.
func (f *file) set(key string, v any) {
	if _, ok := f.meta[key]; !ok {
		f.keys = append(f.keys, key)
	}
	f.meta[key] = v
}

// group is how many query heads share one key head; 1 when the metadata do not say.
func (f *file) group() int {
	heads, shared := f.count("attention.head_count"), f.count("attention.head_count_kv")
	if heads == 0 || shared == 0 {
		return 1
	}
	return heads / shared
}

// count is a number of the architecture's metadata; 0 where there is none.
func (f *file) count(name string) int {
	arch, _ := f.meta["general.architecture"].(string)
	n, _ := f.meta[arch+"."+name].(uint32)
	return int(n)
}

// layerOf is the layer in a tensor's name.
func layerOf(name string) (int, bool) {
	rest, ok := strings.CutPrefix(name, "blk.")
	if !ok {
		return 0, false
	}
	number, _, _ := strings.Cut(rest, ".")
	n, err := strconv.Atoi(number)
	return n, err == nil
}

// sortKeys puts the keys into the usual order: general, the architecture, the tokenizer.
func (f *file) sortKeys() {
	rank := func(key string) int {
		switch {
		case key == "general.architecture":
			return 0
		case strings.HasPrefix(key, "general."):
			return 1
		case strings.HasPrefix(key, "tokenizer."):
			return 3
		}
		return 2
	}
	f.keys = f.keys[:0]
	for key := range f.meta {
		f.keys = append(f.keys, key)
	}
	sort.Slice(f.keys, func(i, j int) bool {
		if a, b := rank(f.keys[i]), rank(f.keys[j]); a != b {
			return a < b
		}
		return f.keys[i] < f.keys[j]
	})
}

// counted is "1 matrix", "3 matrices".
func counted(n int) string {
	if n == 1 {
		return "1 matrix"
	}
	return fmt.Sprintf("%d matrices", n)
}
