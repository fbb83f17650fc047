package convert

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights"
	"github.com/ridge-llm/ridge/weights/adapter"
	"github.com/ridge-llm/ridge/weights/gguf"
	"github.com/ridge-llm/ridge/weights/recipe"
	"github.com/ridge-llm/ridge/weights/safetensors"
)

// product is a module of an adapter to be written.
type product struct {
	name  string // of the matrix, as the file to be written has it
	a, b  quant.Tensor
	scale float32
	table bool
}

// Adapter writes a LoRA adapter in the other form: as llama.cpp's GGUF where out ends with .gguf, and else as a folder of PEFT. base is the
// model that it is for, whose names and order of rows the file has; a folder wants a base in Hugging Face's form.
func Adapter(in, base, out string) (*Result, error) {
	b, err := modeldir.Open(base)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	a, all, err := fit(b, in)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	toGGUF := strings.HasSuffix(out, ".gguf")
	if !toGGUF && b.Source.Kind != weights.HuggingFace {
		return nil, fmt.Errorf("convert: a folder of PEFT has the names and the order of rows of a Hugging Face model, and %s is GGUF; give --base the folder", base)
	}
	if err := plainProducts(in, all); err != nil {
		return nil, err
	}
	c := changes{}
	if err := c.add(b, all, 1); err != nil {
		return nil, err
	}
	products, err := c.products(b, toGGUF)
	if err != nil {
		return nil, err
	}
	r := &Result{Tensors: 2 * len(products)}
	for _, p := range products {
		r.Bytes += int64(len(p.a.Data) + len(p.b.Data))
	}
	if toGGUF {
		return r, writeGGUF(out, b.Model.Arch.Name, a, products)
	}
	return r, writePEFT(out, base, a, products)
}

// plainProducts refuses what only a folder of PEFT can say, which it says already.
func plainProducts(in string, all map[*graph.Weight]*graph.LowRank) error {
	for w, l := range all {
		if l.Rank() == 0 || l.Columns != nil || l.Bias != nil || len(l.Rows.Data) > 0 {
			return fmt.Errorf("convert: adapter %s has more than a product for %s (DoRA, a bias, a saved matrix or trained tokens), which only PEFT's form holds; merge it into the model instead", in, w.Slots.Of.Name)
		}
	}
	return nil
}

// products is the adapter's matrices by the tensors of the file of the model that its own form goes by, in their order.
func (c changes) products(b *modeldir.Dir, toGGUF bool) ([]product, error) {
	type target struct {
		name string
		rows int
		r    recipe.Recipe
	}
	var targets []target
	if toGGUF && b.Source.Kind == weights.HuggingFace {
		e, err := b.Model.Export()
		if err != nil {
			return nil, err
		}
		for _, x := range e.Tensors {
			if x.Values == nil {
				rows, _ := x.Size()
				targets = append(targets, target{x.Name, rows, x.Recipe})
			}
		}
	} else {
		for name, list := range c {
			rows := 0
			for _, x := range list {
				rows += len(x.row)
			}
			targets = append(targets, target{name, rows, recipe.Tensor(name)})
		}
		sort.Slice(targets, func(i, j int) bool { return targets[i].name < targets[j].name })
	}
	var all []product
	for _, t := range targets {
		tensor, row, _ := place(t.r)
		list := c[tensor]
		if len(list) == 0 {
			continue
		}
		p, err := list[0].product(t.name, list, t.rows, row)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// product is a module of so many rows; the changes of one tensor, such as queries, keys and values in one, have the same A.
func (x *change) product(name string, list []change, rows int, row func(int) int) (product, error) {
	l := x.of
	p := product{name: name, a: l.A, scale: l.Scale, table: l.weight.Slots.Table}
	if p.table {
		p.b = l.B
		return p, nil
	}
	for _, other := range list[1:] {
		if !bytes.Equal(other.of.A.Data, l.A.Data) || other.of.Scale != l.Scale {
			return p, fmt.Errorf("convert: the adapter changes parts of %s by different products, which one module cannot hold", name)
		}
	}
	p.b = quant.Tensor{Format: l.B.Format, Rows: rows, Cols: l.B.Cols}
	for r := range rows {
		part := make([]byte, l.B.Format.RowBytes(l.B.Cols))
		for _, x := range list {
			if o, ok := x.row[row(r)]; ok {
				part = x.of.B.Row(o)
			}
		}
		p.b.Data = append(p.b.Data, part...)
	}
	return p, nil
}

// writeGGUF writes llama.cpp's form. It has one alpha for all modules; where theirs differ, B is multiplied by what A and B are to be.
func writeGGUF(out, arch string, a *adapter.Adapter, products []product) error {
	alpha := products[0].scale * float32(products[0].b.Cols)
	for _, p := range products {
		if p.scale*float32(p.b.Cols) != alpha {
			alpha = 0 // the file then has none
		}
	}
	meta := map[string]any{"general.architecture": arch, "general.type": "adapter", "general.name": filepath.Base(a.Path), "adapter.type": "lora"}
	keys := []string{"general.architecture", "general.type", "general.name", "adapter.type"}
	if alpha != 0 {
		meta["adapter.lora.alpha"], keys = alpha, append(keys, "adapter.lora.alpha")
	}
	if len(a.Invocation) > 0 {
		var ids []uint32
		for _, id := range a.Invocation {
			ids = append(ids, uint32(id))
		}
		meta["adapter.alora.invocation_tokens"], keys = ids, append(keys, "adapter.alora.invocation_tokens")
	}
	var tensors []gguf.Output
	add := func(name string, t quant.Tensor) {
		tensors = append(tensors, gguf.Output{Name: name, Format: t.Format, Shape: []int{t.Rows, t.Cols}, Data: func(w io.Writer) error {
			_, err := w.Write(t.Data)
			return err
		}})
	}
	for _, p := range products {
		if alpha == 0 {
			numbers := p.b.Floats()
			for i := range numbers {
				numbers[i] *= p.scale
			}
			p.b = quant.FromFloats(numbers, p.b.Rows, p.b.Cols)
		}
		add(p.name+".lora_a", p.a)
		add(p.name+".lora_b", p.b)
	}
	return weights.WriteFile(out, func(w io.Writer) error { return gguf.Write(w, keys, meta, tensors) })
}

// writePEFT writes a folder as PEFT's save_pretrained does.
func writePEFT(out, base string, a *adapter.Adapter, products []product) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	rank, alpha := products[0].b.Cols, products[0].scale*float32(products[0].b.Cols)
	ranks, alphas, modules := map[string]int{}, map[string]float32{}, []string{}
	var tensors []safetensors.Output
	add := func(name string, t quant.Tensor) {
		tensors = append(tensors, safetensors.Output{Name: name, DType: safetensors.DType(t.Format.Descriptor().DType), Shape: []int{t.Rows, t.Cols}, Data: func(w io.Writer) error {
			_, err := w.Write(t.Data)
			return err
		}})
	}
	for _, p := range products {
		module := strings.TrimSuffix(p.name, ".weight")
		modules = append(modules, module)
		if p.b.Cols != rank {
			ranks[module] = p.b.Cols
		}
		if own := p.scale * float32(p.b.Cols); own != alpha {
			alphas[module] = own
		}
		kind, end := "lora_", ".weight"
		if p.table {
			kind, end = "lora_embedding_", ""
			var err error
			if p.a, err = p.a.Transposed(); err != nil {
				return fmt.Errorf("convert: %w", err)
			}
		}
		add("base_model.model."+module+"."+kind+"A"+end, p.a)
		add("base_model.model."+module+"."+kind+"B"+end, p.b)
	}
	config := map[string]any{
		"peft_type": "LORA", "base_model_name_or_path": base, "r": rank, "lora_alpha": alpha, "rank_pattern": ranks, "alpha_pattern": alphas,
		"target_modules": modules, "bias": "none", "inference_mode": true, "task_type": "CAUSAL_LM",
	}
	if len(a.Invocation) > 0 {
		config["alora_invocation_tokens"] = a.Invocation
	}
	text, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return err
	}
	if err := weights.WriteFile(filepath.Join(out, "adapter_model.safetensors"), func(w io.Writer) error { return safetensors.Write(w, map[string]string{"format": "pt"}, tensors) }); err != nil {
		return err
	}
	return weights.WriteFile(filepath.Join(out, "adapter_config.json"), func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
}
