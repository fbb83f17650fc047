// Package chat turns a conversation into a model's prompt, with the chat template that comes with the model.
//
//	Sources (tokenizer_config.json, chat_template.jinja, GGUF metadata) ─ New ─► Template ─ Render(Request) ─► prompt
//
// The template language is package jinja; here are the messages, the special tokens, and the choice among a model's
// templates, all as Hugging Face's apply_chat_template has them.
package chat
