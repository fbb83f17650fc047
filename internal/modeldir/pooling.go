package modeldir

import (
	"encoding/json"
	"fmt"

	"github.com/ridge-llm/ridge/weights"
)

// poolingFile is where Sentence Transformers keep how a model's hidden states become one vector.
const poolingFile = "1_Pooling/config.json"

// Pooling is how the model's authors make an embedding of hidden states: "mean", "cls" or "last"; "" when the files do not
// say.
func (d *Dir) Pooling() (string, error) {
	if d.Source.Kind == weights.GGUF {
		return d.ggufPooling()
	}
	data, err := d.optional(poolingFile)
	if err != nil || data == nil {
		return "", err
	}
	var modes map[string]any
	if err := json.Unmarshal(data, &modes); err != nil {
		return "", fmt.Errorf("modeldir: %s: %s is not a JSON object: %w", d.Source.Path, poolingFile, err)
	}
	how, _ := modes["pooling_mode"].(string) // as Sentence Transformers 6 writes it
	if how == "lasttoken" {
		how = "last"
	}
	for key, name := range map[string]string{
		"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean", "pooling_mode_lasttoken": "last",
		"pooling_mode_max_tokens": "max", "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len", "pooling_mode_weightedmean_tokens": "weightedmean",
	} {
		if on, _ := modes[key].(bool); on && how != "" {
			return "", fmt.Errorf("modeldir: %s: %s pools by %s and by %s, and Ridge by one of cls, mean and last", d.Source.Path, poolingFile, min(how, name), max(how, name))
		} else if on {
			how = name
		}
	}
	switch how {
	case "", "mean", "cls", "last":
	default:
		return "", fmt.Errorf("modeldir: %s: %s pools by %s; cls, mean and last are possible", d.Source.Path, poolingFile, how)
	}
	return how, nil
}

// ggufPooling reads ARCH.pooling_type, by llama.cpp's numbers: 0 none, 1 mean, 2 cls, 3 last, 4 rank.
func (d *Dir) ggufPooling() (string, error) {
	key := d.Model.Arch.Name + ".pooling_type"
	v, given := d.Source.Metadata[key]
	if !given {
		return "", nil
	}
	n, ok := v.(uint32)
	if !ok || n > 4 {
		return "", fmt.Errorf("modeldir: %s: %s is %v; 0 to 4, as uint32, are possible", d.Source.Path, key, v)
	}
	return [...]string{"", "mean", "cls", "last", "cls"}[n], nil
}
