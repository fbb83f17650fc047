package ridge

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/engine/draft/draftmodel"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/device"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/internal/size"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/tokenizer"
)

// draftModel opens the model that Options.Speculation names, on the model's device and in its Runtime's memory.
func (m *Model) draftModel(o Options) (d draft.Drafter, err error) {
	dir, err := modeldir.Open(o.Speculation.Model)
	if err != nil {
		return nil, err
	}
	dev, err := m.runtime.devices.Open(o.device())
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	var reserved int64
	release := func() error {
		m.runtime.giveBack(dev.Info().Name, reserved)
		return errors.Join(dev.Close(), dir.Close())
	}
	if err := m.checkVocabulary(dir); err != nil {
		return nil, errors.Join(err, release())
	}
	g, err := draftGraph(o, dir, dev)
	if err != nil {
		return nil, errors.Join(err, release())
	}
	var prog *compile.Program
	reserved, err = m.runtime.place(dev.Info().Name, func(others int64) (int64, error) {
		lim := draftmodel.Limits(m.limits, o.stepTokens())
		if err := draftFits(dev, g, lim, weightBytes([]*graph.Graph{g}), others); err != nil {
			return 0, err
		}
		if prog, err = compile.Compile(g, dev, dir, lim); err != nil {
			return 0, err
		}
		use := prog.Memory()
		return use.Weights + use.Caches + use.Arena, nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("ridge: the draft model: %w", err), release())
	}
	d, err = draftmodel.New(prog, release)
	if err != nil {
		prog.Close()
		return nil, errors.Join(err, release())
	}
	return d, nil
}

// draftGraph is the draft model's graph as its device computes it.
func draftGraph(o Options, dir *modeldir.Dir, dev backend.Device) (*graph.Graph, error) {
	if dir.Model.Config.Encoder {
		return nil, errors.New("ridge: the draft model is an encoder, which generates no text; choose another")
	}
	if dir.Model.Config.Diffusion != nil {
		return nil, errors.New("ridge: the draft model fills masked tokens in (diffusion), and drafts are written from left to right; choose another")
	}
	cache, err := device.CacheType(o.Backend, o.Cache)
	if err != nil {
		return nil, err
	}
	info := dev.Info()
	g, err := dir.Model.Graph(model.Options{Act: info.Act, Cache: cache})
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(g.Caches, (*graph.Cache).Recurrent) {
		return nil, errors.New("ridge: the draft model has recurrent layers, whose state cannot take back what was drafted; choose another")
	}
	return pass.Run(g, pass.All, pass.Options{Q8: info.Q8, BF16: info.BF16, Kernels: compile.Kernels{Device: dev}})
}

// draftFits refuses a drafter's graph for whose weights, of so many bytes, and cache there is no memory, with the sums.
func draftFits(dev backend.Device, g *graph.Graph, lim backend.Limits, weights, others int64) error {
	known, ok := dev.(backend.MemoryInfo)
	if !ok {
		return nil
	}
	free, _, err := known.Memory()
	if err != nil {
		return err
	}
	var cache int64
	for _, c := range g.Caches {
		cache += int64(lim.Pages) * lim.PageBytes(c)
	}
	if weights+cache > free-others {
		return fmt.Errorf("its weights take %s, its cache %s for %d sequences of %d tokens, and %s are free; lower --ctx or --max-num-seqs, or leave speculation out", size.Text(weights), size.Text(cache), lim.Seqs, lim.SeqPages*lim.PageSize, size.Text(max(free-others, 0)))
	}
	return nil
}

// checkVocabulary refuses a draft model whose tokens are not the model's: each id must stand for the same bytes.
func (m *Model) checkVocabulary(dir *modeldir.Dir) error {
	var both [2]*tokenizer.Tokenizer
	for i, d := range []*modeldir.Dir{m.dir, dir} {
		var err error
		if both[i], err = d.Tokenizer(); err != nil {
			return err
		}
	}
	own, drafts := m.dir.Model.Config.Vocab, dir.Model.Config.Vocab
	if drafts < own {
		return fmt.Errorf("ridge: the draft model knows %d tokens and the model %d; they must have the same vocabulary", drafts, own)
	}
	for id := range int32(own) {
		if a, b := both[0].TokenBytes(id), both[1].TokenBytes(id); !bytes.Equal(a, b) {
			return fmt.Errorf("ridge: token %d is %q to the model and %q to the draft model; they must have the same vocabulary", id, a, b)
		}
	}
	return nil
}
