package safetensors

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/ridge-llm/ridge/internal/regular"
)

// OpenIndex opens a sharded set by its index, a JSON file beside the shards:
//
//	{"metadata": {…}, "weight_map": {"NAME": "model-00001-of-00002.safetensors", …}}
//
// Every tensor of the map must be in its shard. Tensors that the map does not name are left out.
func OpenIndex(path string) (*File, error) {
	text, err := regular.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	index, err := parseIndex(text)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %s: it %w", path, err)
	}
	set := &File{}
	for i, shard := range index.shards {
		f, err := Open(filepath.Join(filepath.Dir(path), shard))
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("safetensors: %s: shard %d of %d, %s, is missing; put it beside the index", path, i+1, len(index.shards), shard)
		}
		if err != nil {
			set.Close()
			return nil, err
		}
		if i == 0 {
			set.Metadata = f.Metadata
		}
		set.maps = append(set.maps, f.maps...)
		for _, t := range f.Tensors {
			if index.shardOf[t.Name] == shard {
				set.Tensors = append(set.Tensors, t)
				delete(index.shardOf, t.Name)
			}
		}
	}
	for _, name := range index.names {
		if shard, absent := index.shardOf[name]; absent {
			set.Close()
			return nil, fmt.Errorf("safetensors: %s: tensor %q should be in %s, and is not", path, name, shard)
		}
	}
	return set, nil
}

type index struct {
	names   []string          // of the tensors, in the order of the map
	shards  []string          // sorted
	shardOf map[string]string // tensor → shard
}

func parseIndex(text []byte) (index, error) {
	x := index{shardOf: map[string]string{}}
	w, err := newWalker(text)
	if err != nil {
		return x, err
	}
	known := map[string]bool{}
	err = w.object("the index", func(key string) error {
		if key != "weight_map" { // "metadata" says how many bytes there are in all
			var skipped any
			if err := w.dec.Decode(&skipped); err != nil {
				return fmt.Errorf("is not valid JSON: %w", err)
			}
			return nil
		}
		return w.object("weight_map", func(name string) error {
			shard, err := w.str("the shard of " + name)
			if err != nil {
				return err
			}
			if shard != filepath.Base(shard) || shard == "." || shard == ".." || shard == "" {
				return fmt.Errorf("puts tensor %q in %q, which is not the name of a file beside it", name, shard)
			}
			if !known[shard] {
				known[shard] = true
				x.shards = append(x.shards, shard)
			}
			x.names = append(x.names, name)
			x.shardOf[name] = shard
			return nil
		})
	})
	if err == nil {
		err = w.end()
	}
	if err == nil && len(x.names) == 0 {
		err = errors.New(`has no tensors in "weight_map"`)
	}
	slices.Sort(x.shards)
	return x, err
}
