package quantize

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights"
	"github.com/ridge-llm/ridge/weights/safetensors"
)

// shardBytes is about how much a file of weights holds at most.
const shardBytes = 4 << 30

// sidecars are files of a model's directory that a checkpoint takes over as they are.
var sidecars = []string{
	"tokenizer.json", "tokenizer_config.json", "tokenizer.model", "special_tokens_map.json", "added_tokens.json", "vocab.json", "merges.txt",
	"generation_config.json", "chat_template.jinja", "chat_template.json",
}

// writeCheckpoint writes a Hugging Face directory. config.json is written last: without it a directory is not loaded.
func (q *job) writeCheckpoint(ctx context.Context, out string) error {
	var list []safetensors.Output
	var plain []string // modules with matrices that stay as they are
	for _, name := range q.dir.Names() {
		info, data, err := q.raw(name)
		if err != nil {
			return err
		}
		base := strings.TrimSuffix(name, ".weight")
		if m, ok := q.done[name]; ok {
			if name == tiedTable { // which stays, beside what was made of it
				list, base = append(list, output(name, info.DType, info.Shape, data)), "lm_head"
			}
			packed, err := m.outputs(base, q.o.Layout)
			if err != nil {
				return err
			}
			list = append(list, packed...)
			continue
		}
		if t, ok := q.folded[name]; ok {
			if t, err = likeBefore(t, info.DType); err != nil {
				return fmt.Errorf("quantize: tensor %s: %w", name, err)
			}
			if q.o.Layout == LayoutPacked && q.sparse(name) {
				packed, err := sparseOutputs(base, t)
				if err != nil {
					return err
				}
				list = append(list, packed...)
				continue
			}
			data, info.DType = t.Data, t.Format.Descriptor().DType
		}
		if base != name && len(info.Shape) == 2 && !strings.Contains(name, "embed") {
			plain = append(plain, base)
		}
		list = append(list, output(name, info.DType, info.Shape, data))
	}
	if err := writeShards(ctx, out, list); err != nil {
		return err
	}
	for _, name := range sidecars {
		data, err := q.dir.Source.Sidecar(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(out, name), data, 0o644)
		}
		if err != nil {
			return fmt.Errorf("quantize: %w", err)
		}
	}
	config, err := q.config(plain)
	if err != nil {
		return err
	}
	return weights.WriteFile(filepath.Join(out, "config.json"), func(w io.Writer) error { _, err := w.Write(config); return err })
}

// raw is a tensor as the model's file has it; of one that it has not its shape, in the dtype that was chosen for it.
func (q *job) raw(name string) (weights.Info, []byte, error) {
	if _, ok := q.dir.Source.Info(name); !ok {
		t := q.folded[name]
		return weights.Info{Name: name, DType: t.Format.Descriptor().DType, Shape: []int{t.Rows, t.Cols}}, nil, nil
	}
	info, data, err := q.dir.Source.Raw(name)
	if err != nil {
		return info, nil, fmt.Errorf("quantize: %w", err)
	}
	return info, data, nil
}

// output is a tensor of bytes.
func output(name, dtype string, shape []int, data []byte) safetensors.Output {
	return safetensors.Output{Name: name, DType: safetensors.DType(dtype), Shape: shape, Data: func(w io.Writer) error { _, err := w.Write(data); return err }}
}

// outputs is the matrix in a layout; it is packed when it is written.
func (m *Matrix) outputs(base string, l Layout) ([]safetensors.Output, error) {
	if l != LayoutPacked && (m.Rows*m.Bits%32 != 0 || m.Cols*m.Bits%32 != 0 || m.Rows%8 != 0) {
		return nil, fmt.Errorf("quantize: tensor %s.weight has %d rows, whose zero points of %d bits do not fill words of 32, as the layout %s has them; give --layout compressed-tensors", base, m.Rows, m.Bits, l)
	}
	var all []safetensors.Output
	shapes := m.packed(l)
	for i, p := range shapes {
		shapes[i].data = nil
		all = append(all, safetensors.Output{Name: base + p.suffix, DType: safetensors.DType(p.dtype), Shape: p.shape, Data: func(w io.Writer) error {
			_, err := w.Write(m.packed(l)[i].data)
			return err
		}})
	}
	return all, nil
}

// likeBefore is floats in the dtype that the file's tensor has, if that is of 16 bits: the scales that were folded in were chosen so.
func likeBefore(t quant.Tensor, dtype string) (quant.Tensor, error) {
	for _, f := range []quant.Format{quant.BF16, quant.F16} {
		if f.Descriptor().DType == dtype {
			return t.As(f)
		}
	}
	return t, nil
}

// writeShards writes the tensors, in one file or several with an index.
func writeShards(ctx context.Context, out string, list []safetensors.Output) error {
	var shards [][]safetensors.Output
	size, all := shardBytes, 0
	for _, t := range list {
		n, err := t.Bytes()
		if err != nil {
			return fmt.Errorf("quantize: tensor %s has %w", t.Name, err)
		}
		if size += n; size > shardBytes {
			shards, size = append(shards, nil), n
		}
		all += n
		shards[len(shards)-1] = append(shards[len(shards)-1], t)
	}
	index := struct {
		Metadata map[string]int    `json:"metadata"`
		Map      map[string]string `json:"weight_map"`
	}{map[string]int{"total_size": all}, map[string]string{}}
	for i, shard := range shards {
		name := "model.safetensors"
		if len(shards) > 1 {
			name = fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, len(shards))
		}
		for _, t := range shard {
			index.Map[t.Name] = name
		}
		err := weights.WriteFile(filepath.Join(out, name), func(w io.Writer) error {
			return safetensors.Write(&stopping{ctx, w}, map[string]string{"format": "pt"}, shard)
		})
		if err != nil {
			return fmt.Errorf("quantize: %w", err)
		}
	}
	if len(shards) == 1 {
		return nil
	}
	text, err := json.MarshalIndent(index, "", "  ")
	if err != nil {
		return fmt.Errorf("quantize: %w", err)
	}
	return weights.WriteFile(filepath.Join(out, "model.safetensors.index.json"), func(w io.Writer) error { _, err := w.Write(text); return err })
}

// stopping writes until a context ends.
type stopping struct {
	ctx context.Context
	w   io.Writer
}

// Write implements io.Writer.
func (s *stopping) Write(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.w.Write(p)
}

// config is the model's config.json with what was done to its weights. plain are modules with matrices that stay as they are.
func (q *job) config(plain []string) ([]byte, error) {
	var c map[string]any
	d := json.NewDecoder(bytes.NewReader(q.dir.Source.Config))
	d.UseNumber()
	if err := d.Decode(&c); err != nil {
		return nil, fmt.Errorf("quantize: config.json: %w", err)
	}
	slices.Sort(plain)
	if _, own := q.done[tiedTable]; own || q.rotation != nil && !q.dir.Model.Config.Tied {
		untie(c)
	}
	switch {
	case q.o.usesGrid():
		c["quantization_config"] = q.o.config(plain)
	case q.o.Layout == LayoutPacked:
		c["quantization_config"] = sparseConfig(plain)
	}
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("quantize: %w", err)
	}
	return append(text, '\n'), nil
}

// untie says in a config.json that the model has a matrix of its own that makes the logits.
func untie(config map[string]any) {
	config["tie_word_embeddings"] = false
	if text, ok := config["text_config"].(map[string]any); ok {
		text["tie_word_embeddings"] = false
	}
}

// config is the quantization_config of a layout.
func (o *Options) config(plain []string) map[string]any {
	group := o.Grid.Group
	if group == 0 {
		group = -1
	}
	switch o.Layout {
	case LayoutGPTQ:
		c := map[string]any{
			"quant_method": "gptq", "bits": o.Grid.Bits, "group_size": group, "sym": o.Grid.Symmetric, "desc_act": o.Method == MethodGPTQ && o.GPTQ.Order == Full,
			"checkpoint_format": "gptq", "lm_head": o.Head, "static_groups": o.Method == MethodGPTQ && o.GPTQ.Order == Static, "quantizer": "ridge",
		}
		if !o.Grid.Symmetric {
			c["checkpoint_format"] = "gptq_v2"
		}
		if o.GPTQ.Damping != 0 {
			c["damp_percent"] = o.GPTQ.Damping
		}
		dynamic := map[string]any{}
		for _, m := range plain {
			if m != "lm_head" {
				dynamic["-:^"+strings.ReplaceAll(m, ".", `\.`)+"$"] = map[string]any{}
			}
		}
		if len(dynamic) > 0 {
			c["dynamic"] = dynamic
		}
		return c
	case LayoutAWQ:
		c := map[string]any{"quant_method": "awq", "bits": 4, "group_size": group, "zero_point": true, "version": "gemm", "modules_to_not_convert": nil}
		var skip []string
		for _, m := range plain {
			if m != "lm_head" {
				skip = append(skip, m)
			}
		}
		if skip != nil {
			c["modules_to_not_convert"] = skip
		}
		return c
	}
	weight := map[string]any{"num_bits": o.Grid.Bits, "type": "int", "symmetric": o.Grid.Symmetric, "strategy": "group", "group_size": group, "dynamic": false}
	if o.Grid.Group == 0 {
		weight["strategy"], weight["group_size"] = "channel", nil
	}
	if o.Method == MethodGPTQ && o.GPTQ.Order == Full {
		weight["actorder"] = "group"
	}
	format, acts := "pack-quantized", any(nil)
	if o.Grid.Bits == 8 && o.Grid.Symmetric && o.Grid.Group == 0 {
		format = "int-quantized"
		acts = map[string]any{"num_bits": 8, "type": "int", "symmetric": true, "strategy": "token", "dynamic": true}
	}
	ignore := append([]string{}, plain...)
	targets := []string{"Linear"}
	if o.Head {
		targets = append(targets, "lm_head")
	} else if !slices.Contains(ignore, "lm_head") {
		ignore = append(ignore, "lm_head")
	}
	return map[string]any{
		"quant_method": "compressed-tensors", "format": format, "quantization_status": "compressed", "ignore": ignore,
		"config_groups": map[string]any{"group_0": map[string]any{"targets": targets, "weights": weight, "input_activations": acts, "output_activations": nil}},
	}
}
