package cuda

import (
	"errors"

	"github.com/ridge-llm/ridge/backend"
)

// Copy implements backend.Device.
func (d *Device) Copy(dst, src backend.Buffer) error {
	d.read.rows = 0
	return d.do(func() error { return errors.Join(d.swap.awaitAll(), d.stream.Copy(at(dst), at(src), src.Len)) })
}
