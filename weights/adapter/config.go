package adapter

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"sort"
	"strings"
)

// Config is adapter_config.json as PEFT 0.21 writes it, as far as it says what the tensors mean.
type Config struct {
	BaseModel    string             `json:"base_model_name_or_path"`
	Type         string             `json:"peft_type"`
	Rank         int                `json:"r"`
	Alpha        float64            `json:"lora_alpha"`
	RSLoRA       bool               `json:"use_rslora"`
	DoRA         bool               `json:"use_dora"`
	LoRABias     bool               `json:"lora_bias"`
	Bias         string             `json:"bias"`
	FanInFanOut  bool               `json:"fan_in_fan_out"` // how the base stores its matrices; A and B do not depend on it
	RankPattern  map[string]int     `json:"rank_pattern"`
	AlphaPattern map[string]float64 `json:"-"`
	Init         any                `json:"init_lora_weights"`
	Save         []string           `json:"modules_to_save"`
	Parameters   []string           `json:"target_parameters"`
	PEFT         string             `json:"peft_version"` // written from 0.18 on

	targets, exclude modules
	layers           []int // layers_to_transform; nil: all
	layersPattern    []string
	tokens           map[string][]int32 // trainable_token_indices by module
	invocation       []int32
}

// modules is module names as PEFT has them: a list of ends of names, a regular expression of whole names, or all linear layers.
type modules struct {
	ends      []string
	pattern   *regexp.Regexp
	allLinear bool
	unknown   bool // an expression that Go cannot compile: the file's tensors say which modules there are
}

// known are the fields whose meaning is above, or that say nothing of the numbers.
var known = map[string]bool{
	"base_model_name_or_path": true, "peft_type": true, "r": true, "lora_alpha": true, "use_rslora": true, "use_dora": true, "lora_bias": true,
	"bias": true, "fan_in_fan_out": true, "rank_pattern": true, "alpha_pattern": true, "init_lora_weights": true, "modules_to_save": true,
	"target_parameters": true, "target_modules": true, "exclude_modules": true, "layers_to_transform": true, "layers_pattern": true,
	"trainable_token_indices": true, "alora_invocation_tokens": true,
	"alora_invocation_string": true, // of PEFT's own tools; the tokens are what counts
	"auto_mapping":            true, "inference_mode": true, "revision": true, "task_type": true, "peft_version": true, "lora_dropout": true,
	"loftq_config": true, "eva_config": true, "corda_config": true, "lora_ga_config": true, // of the start of training
	"megatron_config": true, "megatron_core": true, "runtime_config": true, "qalora_group_size": true,
}

// changesBase are the ways to start training that change the base's weights, so that the adapter is not one of the base as it is.
var changesBase = []string{"pissa", "olora", "corda", "loftq", "lora_ga", "eva_whitened"}

// parseConfig reads adapter_config.json. A field that asks for something Ridge does not know is refused by its name.
func parseConfig(data []byte) (*Config, error) {
	c := &Config{}
	if err := json.Unmarshal(data, c); err != nil {
		return nil, err
	}
	var all map[string]any
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	if err := c.refuse(all); err != nil {
		return nil, err
	}
	c.AlphaPattern = map[string]float64{}
	if m, ok := all["alpha_pattern"].(map[string]any); ok {
		for k, v := range m {
			x, ok := v.(float64)
			if !ok {
				return nil, fmt.Errorf("alpha_pattern: %q is %v; a number is wanted", k, v)
			}
			c.AlphaPattern[k] = x
		}
	}
	var err error
	if c.targets, err = readModules(all["target_modules"]); err != nil {
		return nil, fmt.Errorf("target_modules: %w", err)
	}
	if c.exclude, err = readModules(all["exclude_modules"]); err != nil {
		return nil, fmt.Errorf("exclude_modules: %w", err)
	}
	if c.invocation, err = tokenIDs(all["alora_invocation_tokens"]); err != nil {
		return nil, fmt.Errorf("alora_invocation_tokens: %w", err)
	}
	if err := c.readLayers(all); err != nil {
		return nil, err
	}
	return c, c.readTokens(all["trainable_token_indices"])
}

// refuse says what of the fields cannot be done.
func (c *Config) refuse(all map[string]any) error {
	if c.Type != "LORA" {
		return fmt.Errorf("peft_type is %q; only LORA is supported", c.Type)
	}
	if c.Rank < 1 {
		return fmt.Errorf("r is %d; a rank of at least 1 is wanted", c.Rank)
	}
	if c.Bias != "" && c.Bias != "none" {
		return fmt.Errorf("bias is %q: biases of the base that were trained are not supported; only \"none\" is", c.Bias)
	}
	if init, ok := c.Init.(string); ok {
		for _, p := range changesBase {
			if strings.HasPrefix(strings.ToLower(init), p) {
				return fmt.Errorf("init_lora_weights is %q, which changes the base's weights; save the adapter with path_initial_model_for_weight_conversion", init)
			}
		}
	}
	if len(c.Parameters) > 0 && (c.DoRA || c.LoRABias) {
		return fmt.Errorf("target_parameters names %s, and use_dora or lora_bias is set, which adapters of parameters cannot have", c.Parameters[0])
	}
	var names []string
	for name, v := range all {
		if !known[name] && !empty(v) {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	if len(names) > 0 {
		return fmt.Errorf("field %s is not supported", strings.Join(names, ", field "))
	}
	return nil
}

// empty reports whether a field says nothing.
func empty(v any) bool {
	switch x := v.(type) {
	case nil:
		return true
	case bool:
		return !x
	case []any:
		return len(x) == 0
	case map[string]any:
		return len(x) == 0
	case string:
		return x == ""
	}
	return false
}

func readModules(v any) (modules, error) {
	switch x := v.(type) {
	case nil:
		return modules{}, nil
	case string:
		if x == "all-linear" {
			return modules{allLinear: true}, nil
		}
		p, err := regexp.Compile("^(?:" + x + ")$")
		return modules{pattern: p, unknown: err != nil}, nil
	case []any:
		m := modules{}
		for _, e := range x {
			s, ok := e.(string)
			if !ok {
				return m, fmt.Errorf("%v is no name of a module", e)
			}
			m.ends = append(m.ends, s)
		}
		return m, nil
	}
	return modules{}, fmt.Errorf("a list of names or a regular expression is wanted, and it is %T", v)
}

// has reports whether a module is one of them, by PEFT's rule. linear says that it is a linear layer other than the head.
func (m *modules) has(name string, linear bool) bool {
	switch {
	case m.allLinear:
		return linear
	case m.pattern != nil:
		return m.pattern.MatchString(name)
	}
	return slices.ContainsFunc(m.ends, func(end string) bool { return name == end || strings.HasSuffix(name, "."+end) })
}

func (c *Config) readLayers(all map[string]any) error {
	switch x := all["layers_to_transform"].(type) {
	case nil:
	case float64:
		c.layers = []int{int(x)}
	case []any:
		for _, e := range x {
			f, ok := e.(float64)
			if !ok {
				return fmt.Errorf("layers_to_transform: %v is no layer", e)
			}
			c.layers = append(c.layers, int(f))
		}
	default:
		return fmt.Errorf("layers_to_transform: %v is neither a layer nor a list of them", x)
	}
	switch x := all["layers_pattern"].(type) {
	case string:
		if x != "" {
			c.layersPattern = []string{x}
		}
	case []any:
		for _, e := range x {
			s, _ := e.(string)
			c.layersPattern = append(c.layersPattern, s)
		}
	}
	return nil
}

// readTokens reads trainable_token_indices: a list, which is of the embeddings, or lists by module.
func (c *Config) readTokens(v any) error {
	c.tokens = map[string][]int32{}
	add := func(module string, v any) error {
		ids, err := tokenIDs(v)
		if err != nil {
			return fmt.Errorf("trainable_token_indices: %w", err)
		}
		c.tokens[module] = ids
		return nil
	}
	switch x := v.(type) {
	case nil:
	case []any:
		return add("embed_tokens", x)
	case map[string]any:
		for module, list := range x {
			if err := add(module, list); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("trainable_token_indices: a list of tokens, or one for each module, is wanted, and it is %T", v)
	}
	return nil
}

// tokensOf is the tokens whose rows of a module were trained.
func (c *Config) tokensOf(module string) []int32 {
	for name, ids := range c.tokens {
		if module == name || strings.HasSuffix(module, "."+name) {
			return ids
		}
	}
	return nil
}

// layerOf finds the number of a module's layer.
var layerOf = regexp.MustCompile(`\.(?:layers?|h|blocks?|layer)\.(\d+)\.`)

// Targets reports whether the configuration asks for a product beside a module, by PEFT's rule. linear says that it is a linear layer
// other than the head.
func (c *Config) Targets(module string, linear bool) bool {
	if c.targets.unknown || c.exclude.unknown || c.exclude.has(module, linear) || !c.targets.has(module, linear) {
		return false
	}
	if c.layers == nil || slices.Contains(c.targets.ends, module) {
		return true
	}
	find := layerOf
	if len(c.layersPattern) > 0 {
		p, err := regexp.Compile(`\.(?:` + strings.Join(c.layersPattern, "|") + `)\.(\d+)\.`)
		if err != nil {
			return false
		}
		find = p
	}
	found := find.FindStringSubmatch("." + module)
	if found == nil {
		return false
	}
	return slices.ContainsFunc(c.layers, func(l int) bool { return fmt.Sprint(l) == found[1] })
}

// byPattern is the value of the first key, in order, that a module's name ends with, as a regular expression.
func byPattern[T any](patterns map[string]T, module string, otherwise T) (T, error) {
	keys := make([]string, 0, len(patterns))
	for k := range patterns {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		p, err := regexp.Compile(`^(?:.*\.)?(?:` + k + `)$`)
		if err != nil {
			return otherwise, fmt.Errorf("the pattern %q is no regular expression that Go knows: %w", k, err)
		}
		if p.MatchString(module) {
			return patterns[k], nil
		}
	}
	return otherwise, nil
}

// scaleOf is what a module's product is multiplied by, and its rank.
func (c *Config) scaleOf(module string) (scale float32, rank int, err error) {
	if rank, err = byPattern(c.RankPattern, module, c.Rank); err != nil {
		return 0, 0, fmt.Errorf("rank_pattern: %w", err)
	}
	alpha, err := byPattern(c.AlphaPattern, module, c.Alpha)
	if err != nil {
		return 0, 0, fmt.Errorf("alpha_pattern: %w", err)
	}
	if rank < 1 {
		return 0, 0, fmt.Errorf("module %s has rank %d; at least 1 is wanted", module, rank)
	}
	by := float64(rank)
	if c.RSLoRA {
		by = math.Sqrt(by)
	}
	return float32(alpha / by), rank, nil
}
