package model

// registry is every architecture. Of several with one GGUF name the first reads GGUF files.
var registry = []*Arch{
	&llama,
	&mistral,
	&mixtral,
	&qwen2,
	&qwen3,
	&qwen3moe,
	&gemma,
	&gemma2,
	&gemma3,
	&phi3,
	&gpt2,
	&gptoss,
	&bert,
	&roberta,
	&xlmRoberta,
	&nomicBert,
}
