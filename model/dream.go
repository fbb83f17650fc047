package model

// dream is Dream (arXiv:2508.15487): Qwen2 with sight of what comes after. It began as Qwen2.5, and a row still says which token comes after its own.
var dream = Arch{
	Name: "dream",
	HF:   []string{"DreamModel"},
	Read: func(f *fields) *Config {
		f.only("use_mrope", false)
		c := qwen2.Read(f)
		f.diffusion(c, true)
		return c
	},
	Build: preNorm,
}
