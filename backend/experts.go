package backend

import "github.com/ridge-llm/ridge/quant"

// ExpertLoader is a device on which experts can be put in the place of others while a program lives.
type ExpertLoader interface {
	// SetExpert begins to put matrices in the place of those with a number in the stacked weights of one block, one of from for each weight, in formats that their stacks were placed from. It is called
	// between steps; those that come meanwhile must give the expert no share, and find finite numbers in its place. set is called when steps can use the new one, at once or in another goroutine, or
	// with why they cannot.
	SetExpert(weights []Weight, number int, from []quant.Tensor, set func(error)) error
}
