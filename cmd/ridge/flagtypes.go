package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/engine/sched"
)

// policyFlag reads the name of a policy.
type policyFlag sched.Policy

// addPolicy adds --policy.
func addPolicy(fl *pflag.FlagSet, to *sched.Policy, byDefault sched.Policy) {
	*to = byDefault
	fl.Var((*policyFlag)(to), "policy", "order of waiting requests: fcfs, priority, or longest-prefix (most in the cache; lpm is the same)")
}

// Type implements pflag.Value.
func (*policyFlag) Type() string { return "string" }

// String implements pflag.Value.
func (p *policyFlag) String() string { return string(*p) }

// Set implements pflag.Value.
func (p *policyFlag) Set(text string) error {
	policy, err := sched.ParsePolicy(text)
	*p = policyFlag(policy)
	return err
}

// intsFlag reads whole numbers with commas between them, which may have spaces around them. Given twice it adds.
type intsFlag struct {
	to    *[]int
	given bool
}

// addInts adds a flag for a list of numbers.
func addInts(fl *pflag.FlagSet, to *[]int, name, short string, byDefault []int, usage string) {
	*to = byDefault
	fl.VarP(&intsFlag{to: to}, name, short, usage)
}

// Type implements pflag.Value.
func (*intsFlag) Type() string { return "ints" }

// String implements pflag.Value.
func (f *intsFlag) String() string {
	if f.to == nil || len(*f.to) == 0 {
		return ""
	}
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(*f.to), "[]"), " ", ",")
}

// Set implements pflag.Value.
func (f *intsFlag) Set(text string) error {
	var all []int
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil {
			return fmt.Errorf("%q is not a whole number; numbers with commas between them are possible, as in 1,2,4", strings.TrimSpace(part))
		}
		all = append(all, n)
	}
	if f.given {
		all = append(*f.to, all...)
	}
	*f.to, f.given = all, true
	return nil
}

// targetFlag reads ridge.Options.TargetITL: a time, or 0 for none.
type targetFlag time.Duration

// Type implements pflag.Value.
func (*targetFlag) Type() string { return "time" }

// String implements pflag.Value.
func (f *targetFlag) String() string {
	switch d := time.Duration(*f); d {
	case 0:
		return ""
	case ridge.NoTargetITL:
		return "0"
	default:
		return d.String()
	}
}

// Set implements pflag.Value.
func (f *targetFlag) Set(text string) error {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return fmt.Errorf("%q is not a time such as 50ms or 1m30s", text)
	case d < 0:
		return fmt.Errorf("a target of %v between tokens; 0 (none) or more is possible", d)
	case d == 0:
		d = ridge.NoTargetITL
	}
	*f = targetFlag(d)
	return nil
}
