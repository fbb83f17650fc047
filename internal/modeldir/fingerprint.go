package modeldir

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
)

// Bytes that Fingerprint reads of a tensor: pieces from its first to its last.
const (
	pieces    = 16
	pieceSize = 4 << 10
)

// Fingerprint tells models apart: SHA-256 in hex of the configuration, and of every tensor's name, type, shape and bytes at 16 places. A change of a few numbers elsewhere
// is not seen: reading all of a model would take as long as its file.
func (d *Dir) Fingerprint() (string, error) {
	sum := sha256.New()
	if err := json.NewEncoder(sum).Encode(d.Model.Config); err != nil {
		return "", fmt.Errorf("modeldir: the configuration of %s: %w", d.Name, err)
	}
	for _, name := range d.Source.Names() {
		info, data, err := d.Source.Raw(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(sum, name, info.DType, info.Shape, len(data))
		for i := range pieces {
			from := max(0, len(data)-pieceSize) * i / (pieces - 1)
			sum.Write(data[from:min(from+pieceSize, len(data))])
		}
	}
	return fmt.Sprintf("%x", sum.Sum(nil)), nil
}
