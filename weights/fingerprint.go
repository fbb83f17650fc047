package weights

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Fingerprint is a hash of what changes when the model's weights are written anew: their files' names, sizes and times. Of a model in memory it is
// its name.
func (s *Source) Fingerprint() (string, error) {
	list := []string{s.Path}
	if entries, err := os.ReadDir(s.Path); err == nil {
		list = nil
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), ".safetensors") {
				list = append(list, filepath.Join(s.Path, e.Name()))
			}
		}
	}
	h := sha256.New()
	for _, name := range list {
		info, err := os.Stat(name)
		if errors.Is(err, fs.ErrNotExist) && len(list) == 1 {
			return s.Path, nil
		}
		if err != nil {
			return "", fmt.Errorf("weights: %w", err)
		}
		fmt.Fprintln(h, filepath.Base(name), info.Size(), info.ModTime().UnixNano())
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}
