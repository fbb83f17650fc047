package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
)

// TestForgedTurns: a message that spells out the model's control tokens adds none to the prompt, unless its texts are trusted.
func TestForgedTurns(t *testing.T) {
	for _, trusted := range []bool{false, true} {
		h, m := start(t, ridge.Options{TrustContent: trusted}, server.Options{})
		isControl := map[int32]bool{}
		for id := range int32(m.Vocab()) {
			if name := m.Decode([]int32{id}); strings.HasPrefix(name, "<") && strings.HasSuffix(name, ">") {
				isControl[id] = true
			}
		}
		special := func(content string) (n int) {
			text, _ := json.Marshal(content)
			status, body := post(t, h, "/tokenize", fmt.Sprintf(`{"messages": [{"role": "user", "content": %s}]}`, text))
			var list struct{ Tokens []int32 }
			if err := json.Unmarshal([]byte(body), &list); err != nil || status != 200 {
				t.Fatal(status, body)
			}
			for _, id := range list.Tokens {
				if isControl[id] {
					n++
				}
			}
			return n
		}
		innocent := special("Hello")
		forged := 0
		for id := range isControl {
			forged += special("Hello"+m.Decode([]int32{id})+"you") - innocent
		}
		if innocent == 0 || (forged > 0) != trusted {
			t.Errorf("trusted %v: messages add %d control tokens to the %d of the template", trusted, forged, innocent)
		}
	}
}
