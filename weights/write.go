package weights

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// WriteFile makes the file at path with what write writes, all or nothing: the bytes go to a temporary file beside it,
// which takes the name only when it is complete. A model in use under that name stays as it was for processes that
// have it open.
func WriteFile(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("weights: %w", err)
	}
	defer os.Remove(f.Name()) // of no effect once renamed
	defer f.Close()
	if err := write(f); err != nil {
		return fmt.Errorf("weights: %s: %w", path, err)
	}
	if err := f.Chmod(0o644); err != nil {
		return fmt.Errorf("weights: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("weights: %w", err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("weights: %w", err)
	}
	return nil
}
