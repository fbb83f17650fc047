package ridge

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/engine/draft/hiddenmodel"
	"github.com/ridge-llm/ridge/internal/device"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/weights"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// eagleFiles is an EAGLE drafter with its files and the target's.
type eagleFiles struct {
	*model.Eagle
	source *weights.Source
	target *modeldir.Dir
}

// openEagle opens the drafter that the settings name.
func openEagle(s Speculation, target *modeldir.Dir) (*eagleFiles, error) {
	source, err := weights.Open(s.Model)
	if err != nil {
		return nil, err
	}
	if source.Config == nil {
		return nil, errors.Join(fmt.Errorf("ridge: %s has no config.json beside it, which says what the EAGLE layer's sizes are", source.Path), source.Close())
	}
	e, err := model.OpenEagle(filepath.Join(source.Path, "config.json"), source.Config, eagleTensors{headFiles{source}}, target.Model)
	if err == nil && e.Three != (s.Method == string(draft.Eagle3)) {
		if err = fmt.Errorf("ridge: %s is of the method eagle, and %s is given", source.Path, s.Method); e.Three {
			err = fmt.Errorf("ridge: %s is of the method eagle3, and %s is given", source.Path, s.Method)
		}
	}
	if err != nil {
		return nil, errors.Join(err, source.Close())
	}
	return &eagleFiles{e, source, target}, nil
}

// eagleTensors is the drafter's file with tensors of any dtype.
type eagleTensors struct{ headFiles }

// Bytes is a tensor of any dtype.
func (f eagleTensors) Bytes(name string) (recipe.Raw, bool) {
	info, data, err := f.Raw(name)
	return recipe.Raw{DType: info.DType, Shape: info.Shape, Data: data}, err == nil
}

// Release implements compile.Tensors.
func (f *eagleFiles) Release(part []byte) {
	f.source.Release(part)
	f.target.Release(part)
}

// tokens are the target's ids of the drafter's vocabulary; nil: they are the same. The file says how far each is from its own number.
func (f *eagleFiles) tokens(vocab int) ([]int32, error) {
	info, data, err := f.source.Raw("d2t")
	if err != nil {
		if f.DraftVocab == vocab {
			return nil, nil
		}
		return nil, fmt.Errorf("ridge: %s knows %d of the model's %d tokens and has no tensor d2t, which says which", f.source.Path, f.DraftVocab, vocab)
	}
	if info.DType != "I64" || len(data) != 8*f.DraftVocab {
		return nil, fmt.Errorf("ridge: %s: tensor d2t is %v in %s; %d numbers in I64 are needed, as many as draft_vocab_size", f.source.Path, info.Shape, info.DType, f.DraftVocab)
	}
	ids := make([]int32, f.DraftVocab)
	for i := range ids {
		id := int64(i) + int64(binary.LittleEndian.Uint64(data[8*i:]))
		if id < 0 || id >= int64(vocab) {
			return nil, fmt.Errorf("ridge: %s: tensor d2t makes token %d of the drafter's the model's %d, which knows %d", f.source.Path, i, id, vocab)
		}
		ids[i] = int32(id)
	}
	return ids, nil
}

// eagle opens the EAGLE layer that Options.Speculation names, on the device of the model's program. hidden is the next of the hidden states that the program keeps.
func (m *Model) eagle(o Options, hidden func(n int) []compile.DeviceRows) (draft.Drafter, error) {
	cache, err := device.CacheType(o.Backend, o.Cache)
	if err != nil {
		return nil, err
	}
	e, err := openEagle(o.Speculation, m.dir)
	if err != nil {
		return nil, err
	}
	d := hiddenmodel.Model{Name: o.Speculation.Method, Branch: o.Speculation.Branch, Vocab: m.Vocab()}
	if d.Target = hidden(1); e.Three {
		d.Target = append(d.Target, hidden(len(e.Layers)-1)...)
	}
	if d.Tokens, err = e.tokens(m.Vocab()); err != nil {
		return nil, errors.Join(err, e.source.Close())
	}
	options := model.Options{Act: m.device.Info().Act, Cache: cache}
	combine, err := e.Combine(options)
	if err != nil {
		return nil, errors.Join(err, e.source.Close())
	}
	layer, err := e.Graph(options)
	if err != nil {
		return nil, errors.Join(err, e.source.Close())
	}
	return m.hiddenModel(d, combine, layer, e, e.source.Close)
}
