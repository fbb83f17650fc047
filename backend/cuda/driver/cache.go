package driver

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
)

// Cache keeps compiled kernels on disk, so that only the first start on a machine waits for the driver's assembler. A file
// is named by what it was made from (PTX, driver version, GPU architecture), so none is ever stale. A nil Cache keeps nothing.
type Cache struct{ dir string }

// UserCache is the cache below os.UserCacheDir, in ridge/cuda. It is nil where the user has no such folder.
func UserCache() *Cache {
	base, err := os.UserCacheDir()
	if err != nil {
		return nil
	}
	return NewCache(filepath.Join(base, "ridge", "cuda"))
}

// NewCache keeps its files in dir, which it makes when it first has something to keep.
func NewCache(dir string) *Cache { return &Cache{dir: dir} }

func (c *Cache) key(ctx *Context, ptx []byte) string {
	sum := sha256.Sum256(ptx)
	return fmt.Sprintf("%s-cuda%d-sm%d.cubin", hex.EncodeToString(sum[:16]), ctx.driver.version, ctx.Arch())
}

func (c *Cache) get(key string) ([]byte, bool) {
	if c == nil {
		return nil, false
	}
	code, err := os.ReadFile(filepath.Join(c.dir, key))
	return code, err == nil && len(code) > 0
}

// put writes beside the final name and renames, so that two processes starting at once never read half a file. A cache
// that cannot be written (a full or read-only disk) only costs the compile again, so it is no error.
func (c *Cache) put(key string, code []byte) {
	if c == nil || os.MkdirAll(c.dir, 0o755) != nil {
		return
	}
	f, err := os.CreateTemp(c.dir, key+".*")
	if err != nil {
		return
	}
	_, err = f.Write(code)
	if f.Close() == nil && err == nil && os.Rename(f.Name(), filepath.Join(c.dir, key)) == nil {
		return
	}
	os.Remove(f.Name())
}
