package hub

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
)

// verify compares contents with the hash by which a file was listed: SHA-256, or Git's hash of a blob.
func verify(f File, data io.Reader) error {
	var h hash.Hash
	if len(f.Hash) == sha256Hex {
		h = sha256.New()
	} else {
		h = sha1.New() // Git's; it guards against accidents
		fmt.Fprintf(h, "blob %d\x00", f.Size)
	}
	if _, err := io.Copy(h, data); err != nil {
		return fmt.Errorf("hub: reading %s back: %w", f.Path, err)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != f.Hash {
		return fmt.Errorf("hub: %s arrived damaged: its checksum is %s and should be %s; it was thrown away, pull again", f.Path, got, f.Hash)
	}
	return nil
}
