// Package tensorfile writes safetensors files for tests; Ridge itself only reads such files.
package tensorfile

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
)

// Tensor is a tensor to be written: its numbers as dtype and shape say, little-endian.
type Tensor struct {
	Name, DType string
	Shape       []int
	Data        []byte
}

// Write writes the tensors to a file, behind a header that is padded to a multiple of 8 bytes as Hugging Face's is.
func Write(path string, tensors []Tensor) error {
	type entry struct {
		DType   string `json:"dtype"`
		Shape   []int  `json:"shape"`
		Offsets [2]int `json:"data_offsets"`
	}
	header, data := map[string]entry{}, []byte{}
	for _, t := range tensors {
		shape := append([]int{}, t.Shape...) // a nil shape is written as []
		header[t.Name] = entry{t.DType, shape, [2]int{len(data), len(data) + len(t.Data)}}
		data = append(data, t.Data...)
	}
	text, err := json.Marshal(header)
	if err != nil {
		return err
	}
	text = append(text, bytes.Repeat([]byte{' '}, -len(text)&7)...)
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	return os.WriteFile(path, append(append(file, text...), data...), 0o644)
}
