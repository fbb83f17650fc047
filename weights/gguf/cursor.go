package gguf

import (
	"fmt"
)

// cursor walks the header. Its first error sticks, and from then on it reads zeros; loops must look at err.
type cursor struct {
	data []byte
	at   int
	err  error
}

func (c *cursor) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
}

func (c *cursor) left() int { return len(c.data) - c.at }

// take is the next n bytes, or nil and an error when the file ends before them.
func (c *cursor) take(n uint64, what string) []byte {
	if c.err != nil {
		return nil
	}
	if n > uint64(c.left()) {
		if len(c.data) == maxHeader {
			c.fail("%s ends past byte %d, where no header of a model does; it is corrupt", what, maxHeader)
		}
		c.fail("the file ends at byte %d inside %s, which needs %d bytes from byte %d; it is truncated or corrupt", len(c.data), what, n, c.at)
		return nil
	}
	b := c.data[c.at:][:n:n]
	c.at += int(n)
	return b
}

func (c *cursor) u32(what string) uint32 {
	if b := c.take(4, what); b != nil {
		return order.Uint32(b)
	}
	return 0
}

func (c *cursor) u64(what string) uint64 {
	if b := c.take(8, what); b != nil {
		return order.Uint64(b)
	}
	return 0
}

func (c *cursor) str(what string) string {
	return string(c.take(c.u64(what), what))
}

// count reads a u64 that says how many things follow, of at least size bytes each, so that nothing is ever allocated
// for more of them than the file can hold.
func (c *cursor) count(size int, what string) int {
	n := c.u64("the number of " + what)
	if c.err == nil && n > uint64(c.left()/size) {
		c.fail("it claims %d %s, but %d bytes follow, enough for %d at most; it is truncated or corrupt", n, what, c.left(), c.left()/size)
	}
	if c.err != nil {
		return 0
	}
	return int(n)
}
