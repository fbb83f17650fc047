package main

import (
	"bytes"
	"io"
	"testing"

	"github.com/ridge-llm/ridge/chat"
)

// TestReply: thoughts are told from answers wherever pieces are cut; a terminal shows both, what is none the answer alone.
func TestReply(t *testing.T) {
	const tagged, harmony = "<think>\nIs it 4?\n</think>\n\nIt is 4.", "<|channel|>analysis<|message|>Is it 4?<|end|><|start|>assistant<|channel|>final<|message|>It is 4."
	for _, c := range []struct {
		style        chat.Style
		output       string
		shown        ink
		terminal     bool
		want         string
		thought, say string
	}{
		{chat.Style{ThinkOpen: "<think>", ThinkClose: "</think>"}, tagged, true, true, dim + "Is it 4?" + plain + "\n\nIt is 4.", "Is it 4?", "It is 4."},
		{chat.Style{ThinkOpen: "<think>", ThinkClose: "</think>"}, tagged, false, true, "Thinking:\nIs it 4?\n\nIt is 4.", "Is it 4?", "It is 4."},
		{chat.Style{ThinkOpen: "<think>", ThinkClose: "</think>"}, tagged, false, false, "It is 4.", "Is it 4?", "It is 4."},
		{chat.Style{ThinkOpen: "<think>", ThinkClose: "</think>"}, "No thoughts.", true, true, "No thoughts.", "", "No thoughts."},
		{chat.Style{ThinkOpen: "<think>", ThinkClose: "</think>"}, "<think>cut", true, true, dim + "cut" + plain + "\n\n", "cut", ""},
		{chat.Style{Tools: chat.Harmony}, harmony, true, true, dim + "Is it 4?" + plain + "\n\nIt is 4.", "Is it 4?", "It is 4."},
	} {
		for _, size := range []int{1, 3, len(c.output)} {
			var b bytes.Buffer
			r := &reply{out: &b, parser: chat.NewOutputParser(chat.OutputOptions{Style: c.style})}
			if c.terminal {
				r.thoughts = c.shown.dimmed(&b, &b)
			}
			for text := c.output; text != ""; text = text[min(size, len(text)):] {
				if _, err := io.WriteString(r, text[:min(size, len(text))]); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.end(); err != nil || b.String() != c.want || r.reasoning.String() != c.thought || r.content.String() != c.say {
				t.Errorf("%q in pieces of %d: %q, %v, thought %q, said %q; want %q", c.output, size, b.String(), err, &r.reasoning, &r.content, c.want)
			}
		}
	}
}
