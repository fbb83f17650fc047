package quantize

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights"
	"github.com/ridge-llm/ridge/weights/safetensors"
)

// state is a folder with what has been quantised so far, a file for each block, which the next run with the same settings goes on from. It is
// removed when the checkpoint is complete.
type state struct {
	dir   string
	files []*safetensors.File
}

// settingsFile is what a state was made with.
const settingsFile = "settings.json"

// settings is what must be the same for a run to be resumed.
type settings struct {
	Model       string  `json:"model"`
	Files       string  `json:"files"` // a hash of the names, sizes and times of its weights
	Options     Options `json:"options"`
	Calibration string  `json:"calibration"` // a hash of its tokens
}

// fingerprint is a hash of the calibration text.
func fingerprint(seqs [][]int32) string {
	h := sha256.New()
	for _, s := range seqs {
		for _, id := range s {
			var b [4]byte
			binary.LittleEndian.PutUint32(b[:], uint32(id))
			h.Write(b[:])
		}
		h.Write([]byte("|"))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// openState opens or makes the folder. One that was made with other settings is refused.
func openState(dir string, s settings) (*state, error) {
	now, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("quantize: %w", err)
	}
	path := filepath.Join(dir, settingsFile)
	before, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("quantize: %w", err)
		}
		err = weights.WriteFile(path, func(w io.Writer) error { _, err := w.Write(now); return err })
		return &state{dir: dir}, err
	case err != nil:
		return nil, fmt.Errorf("quantize: %w", err)
	case string(before) != string(now):
		return nil, fmt.Errorf("quantize: %s holds a run that was begun with other settings (%s says which); remove it, or give those settings to go on", dir, path)
	}
	return &state{dir: dir}, nil
}

// blockFile is the file of a block.
func (s *state) blockFile(i int) string {
	return filepath.Join(s.dir, fmt.Sprintf("block-%03d.safetensors", i))
}

// kept is what a block's file holds.
type kept struct {
	Layers   []LayerError `json:"layers"`
	Matrices []string     `json:"matrices"`
	Floats   []string     `json:"floats"` // tensors that scales were folded into
}

// save writes what a block has made.
func (s *state) save(i int, k kept, matrices map[string]*Matrix, floats map[string]quant.Tensor) error {
	text, err := json.Marshal(k)
	if err != nil {
		return fmt.Errorf("quantize: %w", err)
	}
	var out []safetensors.Output
	add := func(name string, dtype safetensors.DType, shape []int, data []byte) {
		out = append(out, safetensors.Output{Name: name, DType: dtype, Shape: shape, Data: func(w io.Writer) error { _, err := w.Write(data); return err }})
	}
	for _, name := range k.Matrices {
		m := matrices[name]
		zeros := make([]byte, len(m.steps))
		for j, st := range m.steps {
			zeros[j] = st.zero
		}
		add(name+".codes", "U8", []int{m.Rows, m.Cols}, m.codes)
		add(name+".scales", "F32", []int{len(m.steps)}, m.scales())
		add(name+".zeros", "U8", []int{len(m.steps)}, zeros)
		if m.order != nil {
			order := make([]uint32, m.Cols)
			for c, g := range m.order {
				order[c] = uint32(g)
			}
			add(name+".order", "I32", []int{m.Cols}, ints(order))
		}
	}
	for _, name := range k.Floats {
		t := floats[name]
		add(name+".floats", "F32", []int{t.Rows, t.Cols}, t.Data)
	}
	return weights.WriteFile(s.blockFile(i), func(w io.Writer) error {
		return safetensors.Write(w, map[string]string{"kept": string(text)}, out)
	})
}

// load reads what a block has made, codes as windows into the file; false when there is none yet.
func (s *state) load(i int, g Grid) (k kept, matrices map[string]*Matrix, floats map[string]quant.Tensor, ok bool, err error) {
	if _, err := os.Stat(s.blockFile(i)); errors.Is(err, fs.ErrNotExist) {
		return k, nil, nil, false, nil
	}
	f, err := safetensors.Open(s.blockFile(i))
	if err != nil {
		return k, nil, nil, false, fmt.Errorf("quantize: %w; remove the file, and the block is done again", err)
	}
	s.files = append(s.files, f)
	damaged := func(what string) error {
		return fmt.Errorf("quantize: %s has no %s; remove the file, and the block is done again", s.blockFile(i), what)
	}
	if json.Unmarshal([]byte(f.Metadata["kept"]), &k) != nil {
		return k, nil, nil, false, damaged("list of its tensors")
	}
	matrices, floats = map[string]*Matrix{}, map[string]quant.Tensor{}
	for _, name := range k.Matrices {
		if matrices[name] = matrixOf(f, name, g); matrices[name] == nil {
			return k, nil, nil, false, damaged("whole tensor " + name)
		}
	}
	for _, name := range k.Floats {
		t := tensorOf(f, name+".floats", "F32", 2)
		if t == nil {
			return k, nil, nil, false, damaged("tensor " + name)
		}
		floats[name] = quant.Tensor{Format: quant.F32, Rows: t.Shape[0], Cols: t.Shape[1], Data: t.Data}
	}
	return k, matrices, floats, true, nil
}

// tensorOf is a tensor of the file; nil: there is none of that dtype and so many dimensions.
func tensorOf(f *safetensors.File, name string, dtype safetensors.DType, dimensions int) *safetensors.Tensor {
	at := slices.IndexFunc(f.Tensors, func(t safetensors.Tensor) bool { return t.Name == name })
	if at < 0 || f.Tensors[at].DType != dtype || len(f.Tensors[at].Shape) != dimensions {
		return nil
	}
	return &f.Tensors[at]
}

// matrixOf is a matrix that save has written; nil: it is not there, or not whole.
func matrixOf(f *safetensors.File, name string, g Grid) *Matrix {
	codes, scales, zeros := tensorOf(f, name+".codes", "U8", 2), tensorOf(f, name+".scales", "F32", 1), tensorOf(f, name+".zeros", "U8", 1)
	if codes == nil || scales == nil || zeros == nil || len(codes.Data) == 0 || g.fits(name, codes.Shape[1]) != nil {
		return nil
	}
	m := &Matrix{Grid: g, Rows: codes.Shape[0], Cols: codes.Shape[1], codes: codes.Data}
	if len(zeros.Data) != m.Rows*m.groups() || scales.Shape[0] != len(zeros.Data) || slices.Max(m.codes) > uint8(g.top()) || slices.Max(zeros.Data) > uint8(g.top()) {
		return nil
	}
	m.steps = make([]step, len(zeros.Data))
	for j, scale := range (quant.Tensor{Format: quant.F32, Rows: 1, Cols: len(m.steps), Data: scales.Data}).Floats() {
		m.steps[j] = step{scale, zeros.Data[j]}
	}
	if order := tensorOf(f, name+".order", "I32", 1); order != nil {
		if order.Shape[0] != m.Cols {
			return nil
		}
		m.order = make([]int32, m.Cols)
		for c := range m.order {
			m.order[c] = int32(binary.LittleEndian.Uint32(order.Data[4*c:]))
		}
		if slices.Min(m.order) < 0 || int(slices.Max(m.order)) >= m.groups() {
			return nil
		}
	}
	return m
}

// close unmaps the files; matrices that were loaded must not be used afterwards.
func (s *state) close() {
	for _, f := range s.files {
		f.Close()
	}
	s.files = nil
}
