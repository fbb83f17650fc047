package serving

import (
	"fmt"
	"runtime/debug"

	"github.com/ridge-llm/ridge"
)

// Contained calls f and returns a panic in it as an error. Handlers recover panics anyway, but a stream that has begun should
// end with an error that its client can read, and a panic in a goroutine would end the process.
func Contained(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &ridge.Error{Kind: ridge.ErrInternal, Reason: fmt.Sprintf("a panic ended the request: %v", p), Stack: debug.Stack()}
		}
	}()
	return f()
}
