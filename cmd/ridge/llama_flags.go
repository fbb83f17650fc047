package main

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/ridge-llm/ridge"
)

// llamaFlags are llama.cpp's own samplers, by its names. No model recommends any of them.
type llamaFlags struct {
	topNSigma        float64
	xtcProbability   float64
	xtcThreshold     float64
	dynatempRange    float64
	dynatempExponent float64
	mirostat         int
	mirostatTau      float64
	mirostatEta      float64
	samplers         []string
	dryMultiplier    float64
	dryBase          float64
	dryAllowed       int
	dryWindow        int
	dryBreakers      []string
}

func (f *llamaFlags) add(fl *pflag.FlagSet) {
	fl.Float64Var(&f.topNSigma, "top-nsigma", 0, "choose among the tokens whose logit is at most so many standard deviations below the highest; 0: all")
	alias(fl, "top-n-sigma", "top-nsigma")
	fl.Float64Var(&f.xtcProbability, "xtc-probability", 0, "how often the likeliest tokens are left out, all but the last above --xtc-threshold")
	fl.Float64Var(&f.xtcThreshold, "xtc-threshold", 0.1, "probability of the tokens that --xtc-probability leaves out; above 0.5: none")
	fl.Float64Var(&f.dynatempRange, "dynatemp-range", 0, "have the temperature lie so far below or above --temperature, by how sure the model is")
	fl.Float64Var(&f.dynatempExponent, "dynatemp-exp", 1, "exponent of how sure the model is, for --dynatemp-range")
	fl.IntVar(&f.mirostat, "mirostat", 0, "1 or 2: choose so that tokens surprise by --mirostat-ent on average; filters and penalties do not count then")
	fl.Float64Var(&f.mirostatTau, "mirostat-ent", 5, "surprise of tokens that --mirostat is to reach, in bits (tau)")
	fl.Float64Var(&f.mirostatEta, "mirostat-lr", 0.1, "how fast --mirostat gets there (eta)")
	fl.Float64Var(&f.dryMultiplier, "dry-multiplier", 0, "lower the logits of tokens that go on with a repetition by this times --dry-base to the power of its tokens beyond --dry-allowed-length; 0: not at all")
	fl.Float64Var(&f.dryBase, "dry-base", 1.75, "base of the penalty of --dry-multiplier, 1 or more")
	fl.IntVar(&f.dryAllowed, "dry-allowed-length", 2, "tokens of a repetition from which on --dry-multiplier counts")
	fl.IntVar(&f.dryWindow, "dry-penalty-last-n", -1, "tokens that --dry-multiplier looks back at; -1: all")
	fl.StringArrayVar(&f.dryBreakers, "dry-sequence-breaker", ridge.DefaultBreakers(), "text that ends repetitions for --dry-multiplier; can be given several times; \"none\": none does")
	fl.StringSliceVar(&f.samplers, "samplers", nil, "only these samplers, in this order: "+strings.Join(ridge.SamplerNames(), ", "))
}

func (f *llamaFlags) set(s *ridge.Sampling, m *ridge.Model) (err error) {
	s.TopNSigma = f.topNSigma
	s.XTCProbability, s.XTCThreshold = f.xtcProbability, f.xtcThreshold
	s.Mirostat, s.MirostatTau, s.MirostatEta = f.mirostat, f.mirostatTau, f.mirostatEta
	s.Samplers = f.samplers
	s.DynatempRange, s.DynatempExponent = f.dynatempRange, f.dynatempExponent
	if s.DryMultiplier, s.DryBase, s.DryAllowedLength, s.DryWindow = f.dryMultiplier, f.dryBase, f.dryAllowed, f.dryWindow; f.dryMultiplier == 0 {
		return nil
	}
	if len(f.dryBreakers) != 1 || f.dryBreakers[0] != "none" {
		s.DryBreakers, err = m.Breakers(f.dryBreakers)
	}
	return err
}
