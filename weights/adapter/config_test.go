package adapter

import (
	"strings"
	"testing"
)

func TestConfigRefusals(t *testing.T) {
	for fields, want := range map[string]string{
		`"r": 0`:                             "r is 0",
		`"r": 4, "bias": "lora_only"`:        "bias is",
		`"r": 4, "layer_replication": [[0]]`: "layer_replication",
		`"r": 4, "use_dora": true, "target_parameters": ["mlp.experts.gate_up_proj"]`: "target_parameters",
		`"r": 4, "init_lora_weights": "pissa_niter_16"`:                               "changes the base's weights",
		`"r": 4, "target_modules": 3`:                                                 "target_modules",
		`"r": 4, "alora_invocation_tokens": [-1]`:                                     "alora_invocation_tokens",
		`"r": 4, "ensure_weight_tying": true`:                                         "ensure_weight_tying",
	} {
		if _, err := parseConfig([]byte(`{"peft_type": "LORA", ` + fields + `}`)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; it should say %q", fields, err, want)
		}
	}
}

func TestTargets(t *testing.T) {
	const first, second = "model.layers.0.self_attn.q_proj", "model.layers.11.self_attn.q_proj"
	for fields, want := range map[string][2]bool{
		`"target_modules": ["q_proj"]`:                                          {true, true},
		`"target_modules": ["proj"]`:                                            {false, false},
		`"target_modules": ".*layers\\.0\\..*q_proj"`:                           {true, false},
		`"target_modules": "all-linear", "exclude_modules": ["q_proj"]`:         {false, false},
		`"target_modules": ["q_proj"], "layers_to_transform": [0, 1]`:           {true, false},
		`"target_modules": ["q_proj"], "layers_to_transform": 11`:               {false, true},
		`"target_modules": ["layers.11.self_attn.q_proj"]`:                      {false, true},
		`"target_modules": ["q_proj"], "exclude_modules": ".*layers\\.11\\..*"`: {true, false},
	} {
		c, err := parseConfig([]byte(`{"peft_type": "LORA", "r": 4, ` + fields + `}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]bool{c.Targets(first, true), c.Targets(second, true)}; got != want {
			t.Errorf("%s: %v, not %v", fields, got, want)
		}
	}
}

func TestScale(t *testing.T) {
	c, err := parseConfig([]byte(`{"peft_type": "LORA", "r": 4, "lora_alpha": 8, "rank_pattern": {"q_proj": 16}, "alpha_pattern": {"layers.1.*q_proj": 64}}`))
	if err != nil {
		t.Fatal(err)
	}
	for module, want := range map[string]float32{"model.layers.0.mlp.up_proj": 2, "model.layers.0.self_attn.q_proj": 0.5, "model.layers.1.self_attn.q_proj": 4} {
		if got, _, err := c.scaleOf(module); err != nil || got != want {
			t.Errorf("%s: %g, %v; not %g", module, got, err, want)
		}
	}
}

func TestOutputsFirst(t *testing.T) {
	for version, want := range map[string]bool{"": false, "0.17.1": false, "0.18.1": false, "0.19.0": false, "0.19.1": true, "0.19.1.dev0": false, "0.20.0": true, "0.20.0.dev0@UNKNOWN": true, "1.0": true, "main": false} {
		if got := (&Config{PEFT: version}).OutputsFirst(); got != want {
			t.Errorf("%q: %v; want %v", version, got, want)
		}
	}
}
