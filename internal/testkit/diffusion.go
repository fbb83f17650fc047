package testkit

import (
	"encoding/json"
	"os"
	"path/filepath"
)

// WriteDiffusion copies a masked diffusion model of internal/check/testdata, at from, into dir and gives it a vocabulary: a token for each printable ASCII
// character, in the order of their codes, and the mask, token 95.
func WriteDiffusion(dir, from string) error {
	for _, name := range []string{"config.json", "model.safetensors"} {
		data, err := os.ReadFile(filepath.Join(from, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o644)
		}
		if err != nil {
			return err
		}
	}
	vocab := map[string]int{"Ġ": 0, "<mask>": 95}
	for c := '!'; c <= '~'; c++ {
		vocab[string(c)] = int(c - ' ')
	}
	data, err := json.Marshal(object{
		"added_tokens":  []object{{"id": 95, "content": "<mask>", "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false}},
		"pre_tokenizer": object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
		"decoder":       object{"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
		"model":         object{"type": "BPE", "vocab": vocab, "merges": []string{}},
	})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), data, 0o644); err != nil {
		return err
	}
	template := "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }} {% endfor %}assistant:"
	data, err = json.Marshal(object{"chat_template": template, "eos_token": nil})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "tokenizer_config.json"), data, 0o644)
}
