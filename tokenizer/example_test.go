package tokenizer_test

import (
	"fmt"
	"log"
	"os"

	"github.com/ridge-llm/ridge/tokenizer"
)

func ExampleTokenizer_Encode() {
	file, err := os.ReadFile("testdata/demo.json")
	if err != nil {
		log.Fatal(err)
	}
	tok, err := tokenizer.FromJSON(file, nil)
	if err != nil {
		log.Fatal(err)
	}
	ids, err := tok.Encode("Once upon a time<|im_end|>", tokenizer.Options{Special: true, ParseSpecial: true})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ids)
	fmt.Printf("%q\n", tok.Decode(ids, true))
	// Output:
	// [1354 1447 266 530 2]
	// "Once upon a time"
}

// A stream gives text as ids come, and never half a character.
func ExampleTokenizer_NewStream() {
	file, err := os.ReadFile("testdata/demo.json")
	if err != nil {
		log.Fatal(err)
	}
	tok, err := tokenizer.FromJSON(file, nil)
	if err != nil {
		log.Fatal(err)
	}
	ids, err := tok.Encode("a dragon 🐉", tokenizer.Options{})
	if err != nil {
		log.Fatal(err)
	}
	stream := tok.NewStream(true)
	for _, id := range ids {
		fmt.Printf("%q ", stream.Push(id))
	}
	fmt.Printf("%q\n", stream.Flush())
	// Output:
	// "a" " dragon" " " "" "" "" "🐉" ""
}
