package ridge

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ridge-llm/ridge/weights/mmap"
)

// intact is an error of kind ErrModelFile once a file of the weights is not what it was when it was opened.
func (m *Model) intact() error {
	m.files.RLock()
	defer m.files.RUnlock()
	err := m.dir.Source.Changed()
	if err == nil {
		return nil
	}
	return &Error{Kind: ErrModelFile, Reason: strings.TrimPrefix(err.Error(), "weights: ") + "; load the model again", cause: err}
}

// Replaced reports whether loading the model from its path would give another one than this: its files were changed, or others have
// their names now.
func (m *Model) Replaced() bool {
	m.files.RLock()
	defer m.files.RUnlock()
	return m.dir.Source.Replaced()
}

// reading runs what reads the model's files. A fault in a mapped file, which was cut or lies on a disk that failed, is an error.
func (m *Model) reading(f func() error) (err error) {
	if fault := mmap.Reading(func() { err = f() }); fault != nil {
		return errors.Join(m.intact(), fmt.Errorf("ridge: a file of the model cannot be read: %w", fault))
	}
	if err != nil {
		err = errors.Join(m.intact(), err) // on a GPU's way to its memory a fault is an error already
	}
	return err
}
