package jinja

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// chatml is a template of the plain kind that most models have.
const chatml = `{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\n' + message.content | trim + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}`

func longConversation(turns int) *Map {
	messages := NewList()
	for i := range turns {
		role := []string{"user", "assistant"}[i%2]
		messages.Append(NewMap().Set("role", role).Set("content", fmt.Sprintf("This is message %d. It has some words in it, and an end.", i)))
	}
	return NewMap().Set("messages", messages).Set("add_generation_prompt", true).Set("bos_token", "<s>").Set("eos_token", "</s>")
}

// BenchmarkRender renders a conversation of 50 messages.
func BenchmarkRender(b *testing.B) {
	sources := map[string]string{"chatml": chatml}
	for _, file := range []string{"Qwen-Qwen3-0.6B.jinja", "openai-gpt-oss-120b.jinja", "google-gemma-4-31B-it.jinja", "meta-llama-Llama-3.1-8B-Instruct.jinja", "deepseek-ai-DeepSeek-V3.1.jinja"} {
		if source, err := os.ReadFile(filepath.Join(referenceDir, file)); err == nil {
			sources[file] = string(source)
		}
	}
	vars := longConversation(50)
	for name, source := range sources {
		tmpl, err := Parse(name, source)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := tmpl.Render(context.Background(), vars, Options{Now: referenceNow}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
