package sample_test

import (
	"fmt"

	"github.com/ridge-llm/ridge/engine/sample"
)

// The life of one request, as the engine sees it: a row of logits in, a piece of text out, until there is a reason.
func Example() {
	vocabulary := []string{"Pip", " the", " fox", ".", "</s>"}
	likes := [][]float32{ // what the model would say after each token
		{9, 0, 0, 0, 0}, {0, 9, 0, 0, 0}, {0, 0, 9, 0, 0}, {0, 0, 0, 9, 8}, {0, 0, 0, 0, 9},
	}

	params := sample.Default()
	params.Temperature = 0
	params.LogitBias = map[int32]float64{4: -5}
	state, err := sample.NewState(params, len(vocabulary), []int32{4})
	if err != nil {
		panic(err) // a sentence for the client: status 400
	}
	stopper, err := sample.NewStopper(sample.Stop{Tokens: []int32{4}, Strings: []string{" fox."}, MaxTokens: 16})
	if err != nil {
		panic(err)
	}

	var sampler sample.Sampler // one per goroutine that samples
	for _, logits := range likes {
		choice, err := sampler.Sample(logits, state, nil)
		if err != nil {
			panic(err) // the model's numbers are broken: the request fails, the others go on
		}
		state.Observe(choice.Token)
		piece := stopper.Push(choice.Token, vocabulary[choice.Token])
		fmt.Printf("%q reason=%q\n", piece.Text, piece.Reason)
		if piece.Reason != "" {
			break
		}
	}
	// Output:
	// "Pip" reason=""
	// " the" reason=""
	// "" reason=""
	// "" reason="stop"
}
