package hub

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// sidecars are the files that a model in safetensors needs or may have, beside its weights.
var sidecars = []string{
	"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
	"vocab.json", "merges.txt", "vocab.txt", "tokenizer.model", "chat_template.jinja", "chat_template.json", "model.safetensors.index.json",
}

// chooseSafetensors picks the weights at the top of a repository and their sidecars.
func chooseSafetensors(r Ref, files []File) (*Model, error) {
	m := &Model{}
	var weights []File
	sharded, config, pickled := false, false, ""
	for _, f := range files {
		switch {
		case strings.Contains(f.Path, "/"):
		case slices.Contains(sidecars, f.Path):
			m.Files = append(m.Files, f)
			config = config || f.Path == "config.json"
		case path.Ext(f.Path) == ".safetensors":
			weights = append(weights, f)
			sharded = sharded || splitWeights(f.Path)
		case path.Ext(f.Path) == ".bin" || path.Ext(f.Path) == ".pth":
			pickled = f.Path
		}
	}
	if sharded { // then the others are the same once more, as Mistral's consolidated.safetensors
		weights = slices.DeleteFunc(weights, func(f File) bool { return !splitWeights(f.Path) })
	}
	if i := slices.IndexFunc(weights, func(f File) bool { return f.Path == "model.safetensors" }); i >= 0 {
		weights = weights[i : i+1]
	}
	switch {
	case len(weights) == 0 && pickled != "":
		return nil, fmt.Errorf("hub: %s has only PyTorch weights (%s), which Ridge does not read; look for the model as GGUF or safetensors", r.Repo, pickled)
	case len(weights) == 0:
		return nil, fmt.Errorf("hub: %s has neither GGUF files nor safetensors", r.Repo)
	case !config:
		return nil, fmt.Errorf("hub: %s has weights but no config.json, which says what model they are", r.Repo)
	}
	m.Files = append(m.Files, weights...)
	return m, nil
}

// splitWeights reports whether a file is one of model-00001-of-0000N.safetensors.
func splitWeights(name string) bool {
	stem := strings.TrimSuffix(name, ".safetensors")
	return strings.HasPrefix(stem, "model") && splitName.MatchString(stem)
}
