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
	fl.StringSliceVar(&f.samplers, "samplers", nil, "only these samplers, in this order: "+strings.Join(ridge.SamplerNames(), ", "))
}

func (f *llamaFlags) set(s *ridge.Sampling) {
	s.TopNSigma = f.topNSigma
	s.XTCProbability, s.XTCThreshold = f.xtcProbability, f.xtcThreshold
	s.Mirostat, s.MirostatTau, s.MirostatEta = f.mirostat, f.mirostatTau, f.mirostatEta
	s.Samplers = f.samplers
	s.DynatempRange, s.DynatempExponent = f.dynatempRange, f.dynatempExponent
}
