package quantize

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ridge-llm/ridge/internal/convert"
	"github.com/ridge-llm/ridge/internal/device"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/weights"
)

// Result is what was made.
type Result struct {
	Layers  []LayerError `json:"layers"`
	Resumed int          `json:"resumed_blocks"` // that an earlier run had done
	Notes   []string     `json:"notes,omitempty"`
}

// partial is the folder of a run's state: within a directory, or beside a GGUF file.
const partial = ".ridge-quantize"

// statePath is where the state of a run that makes out lies.
func statePath(out string) string {
	if isGGUF(out) {
		return filepath.Join(filepath.Dir(out), partial+"-"+filepath.Base(out))
	}
	return filepath.Join(out, partial)
}

func isGGUF(path string) bool { return strings.HasSuffix(path, ".gguf") }

// Run quantises the model in dir and writes it to out: a GGUF file if its name ends so, else a Hugging Face directory. seqs is the calibration
// text. A run that was ended goes on where it was when it is started again.
func Run(ctx context.Context, dir *modeldir.Dir, seqs [][]int32, out string, o Options) (*Result, error) {
	if err := o.checkOutput(dir, out); err != nil {
		return nil, err
	}
	dev, err := device.Open(device.Options{Backend: o.Backend, Threads: o.Threads})
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	q, err := newJob(dir, dev, seqs, o)
	if err != nil {
		return nil, err
	}
	if err := q.checkTensors(); err != nil {
		return nil, err
	}
	files, err := dir.Source.Fingerprint()
	if err != nil {
		return nil, err
	}
	if q.state, err = openState(statePath(out), settings{dir.Source.Path, files, q.o, fingerprint(seqs)}); err != nil {
		return nil, err
	}
	defer q.state.close()
	if err := q.run(ctx); err != nil {
		return nil, err
	}
	r := &Result{Layers: q.layers, Resumed: q.resumed, Notes: q.notes}
	if isGGUF(out) {
		notes, err := q.writeGGUF(ctx, out)
		if err != nil {
			return nil, err
		}
		r.Notes = append(r.Notes, notes...)
	} else if err := q.writeCheckpoint(ctx, out); err != nil {
		return nil, err
	}
	q.state.close()
	if err := os.RemoveAll(q.state.dir); err != nil {
		return nil, fmt.Errorf("quantize: %w", err)
	}
	return r, nil
}

// writeGGUF writes a GGUF file.
func (q *job) writeGGUF(ctx context.Context, out string) (notes []string, err error) {
	for name, m := range q.done {
		q.dir.Replace(name, m.blocks())
	}
	for name, t := range q.folded {
		info, _ := q.dir.Source.Info(name)
		if t, err = likeBefore(t, info.DType); err != nil {
			return nil, fmt.Errorf("quantize: tensor %s: %w", name, err)
		}
		if q.sparse(name) {
			if t, err = inBlocks(t); err != nil {
				return nil, fmt.Errorf("quantize: tensor %s: %w", name, err)
			}
		}
		q.dir.Replace(name, t)
	}
	written, err := convert.Dir(ctx, q.dir, out, convert.Options{Ends: q.o.Ends})
	if err != nil {
		return nil, err
	}
	return written.Notes, nil
}

// checkOutput says why the result cannot be written there.
func (o *Options) checkOutput(dir *modeldir.Dir, out string) error {
	if out == "" {
		return errors.New("quantize: say with -o where to write: a name that ends in .gguf, or a directory")
	}
	if isGGUF(out) {
		if o.Method == SmoothQuant {
			return errors.New("quantize: GGUF has no type of 8 bits with a scale for a row, which smoothquant makes; give a directory")
		}
		if o.Head {
			return fmt.Errorf("quantize: --lm-head is of a directory, and %s is a GGUF file; --output-tensor-type gives its output matrix a format", out)
		}
		if o.Layout != "" {
			return fmt.Errorf("quantize: --layout %s is of a directory, and %s is a GGUF file; leave it out", o.Layout, out)
		}
		if o.Grid.Bits > 5 && !o.Grid.Symmetric {
			return fmt.Errorf("quantize: GGUF's types of more than 5 bits are symmetric; leave out --asymmetric for %d bits", o.Grid.Bits)
		}
		if o.GPTQ.Order == Full {
			return errors.New("quantize: GGUF cannot say which column is of which group; give --act-order static")
		}
		return nil
	}
	if o.Ends != (convert.Ends{}) {
		return fmt.Errorf("quantize: --token-embedding-type and --output-tensor-type are of GGUF files, and %s is to be a directory; leave them out", out)
	}
	if dir.Source.Kind == weights.GGUF {
		return fmt.Errorf("quantize: %s is a GGUF file, and can only become another; give a name that ends in .gguf", dir.Source.Path)
	}
	list, err := os.ReadDir(out)
	if err != nil {
		return nil // it is made
	}
	for _, e := range list {
		if e.Name() == "config.json" {
			return fmt.Errorf("quantize: %s holds a model already; give another name", out)
		}
	}
	return nil
}

// checkTensors notes which tensors are quantised and how they are rotated, and says which cannot be, before the work begins.
func (q *job) checkTensors() error {
	seen := map[string]*input{}
	q.rounded = map[string]bool{}
	for i := range q.blocks {
		for j := range q.blocks[i].inputs {
			in := &q.blocks[i].inputs[j]
			tensors, err := q.tensorsOf(in)
			if err != nil {
				return err
			}
			for _, t := range tensors {
				if first := seen[t.name]; first != nil {
					return fmt.Errorf("quantize: tensor %s is read by linear layers of two inputs, %s and %s; it can be rounded for one alone", t.name, first.value.Name, in.value.Name)
				}
				seen[t.name], q.rounded[t.name] = in, true
			}
		}
	}
	q.findMixtures()
	for _, b := range q.blocks {
		for _, m := range b.mixtures {
			for _, name := range m.tensors() {
				q.rounded[name] = true
			}
		}
	}
	if q.o.Head {
		return q.checkHead()
	}
	if !q.o.Rotate {
		return nil
	}
	var err error
	q.rotation, err = q.rotationOf()
	return err
}

// tiedTable is the table of embeddings of Hugging Face's decoders, which makes the logits too where there is no lm_head.weight.
const tiedTable = "model.embed_tokens.weight"

// checkHead says why the matrix that makes the logits cannot be written. One that the embeddings are tied to gets a name of its own.
func (q *job) checkHead() error {
	head := q.blocks[len(q.blocks)-1].inputs
	if len(head) == 0 {
		return fmt.Errorf("quantize: %s has no matrix that makes logits, which --lm-head is of; leave it out", q.dir.Name)
	}
	tensors, err := q.tensorsOf(&head[0])
	if err != nil {
		return err
	}
	if name := tensors[0].name; len(tensors) > 1 || name != "lm_head.weight" && name != tiedTable {
		return fmt.Errorf("quantize: --lm-head is of models whose logits lm_head.weight or %s makes, and here it is %s; leave it out", tiedTable, name)
	}
	return nil
}
