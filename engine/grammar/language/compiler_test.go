package language

import (
	"context"
	"testing"
)

// bytesTokenizer has a token for each byte and one that ends an answer.
type bytesTokenizer struct{}

func (bytesTokenizer) TokenBytes(id int32) []byte {
	if id == 256 {
		return nil
	}
	return []byte{byte(id)}
}
func (bytesTokenizer) IsSpecial(id int32) bool       { return id == 256 }
func (bytesTokenizer) Token(id int32) (string, bool) { return "<end>", id == 256 }

// justOver is a context whose time is over a moment after its grammar was compiled.
type justOver struct{ context.Context }

func (justOver) Err() error { return context.DeadlineExceeded }

// TestDeadlineAfterCompiling: a grammar that is compiled when the request's time ends is there all the same: there is an automaton or an error.
func TestDeadlineAfterCompiling(t *testing.T) {
	c, err := NewCompiler(bytesTokenizer{}, 257, []int32{256}, func(text string) (ids []int32, err error) {
		for i := range len(text) {
			ids = append(ids, int32(text[i]))
		}
		return ids, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	a, err := c.Compile(justOver{context.Background()}, Choices([]string{"yes", "no"}))
	if err != nil || a == nil {
		t.Fatalf("%v, %v", a, err)
	}
}
