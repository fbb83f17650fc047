//go:build !unix

package hub

import (
	"context"
	"errors"
)

// lock does nothing on systems whose locks Ridge does not use: do not pull one model twice at once there.
func lock(context.Context, string) (unlock func(), err error) { return func() {}, nil }

// freeSpace is not known on systems that Ridge does not ask.
func freeSpace(string) (int64, error) { return 0, errors.ErrUnsupported }
