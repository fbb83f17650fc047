package cuda

import "github.com/ridge-llm/ridge/backend"

// Copy implements backend.Device.
func (d *Device) Copy(dst, src backend.Buffer) error {
	d.read.rows = 0
	return d.do(func() error { return d.stream.Copy(at(dst), at(src), src.Len) })
}
