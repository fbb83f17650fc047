package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/ridge-llm/ridge/engine/sched"
)

// TestInts: lists may have spaces, a flag given twice adds, and the default goes when there is another.
func TestInts(t *testing.T) {
	for args, want := range map[string][]int{
		"":               {7, 8},
		"--n=1":          {1},
		"--n= 1, 2 ,-4":  {1, 2, -4},
		"--n=1,2|--n=16": {1, 2, 16},
	} {
		var got []int
		fl := pflag.NewFlagSet("", pflag.ContinueOnError)
		addInts(fl, &got, "n", "", []int{7, 8}, "")
		if fl.Lookup("n").DefValue != "7,8" {
			t.Errorf("the default is shown as %q", fl.Lookup("n").DefValue)
		}
		if err := fl.Parse(strings.FieldsFunc(args, func(r rune) bool { return r == '|' })); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v", args, got, err, want)
		}
	}
	for _, bad := range []string{"", "a", "1,,2", "1.5", "99999999999999999999"} {
		var got []int
		if err := (&intsFlag{to: &got}).Set(bad); err == nil || !strings.Contains(err.Error(), "is not a whole number") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestPolicy: SGLang's name of a policy is known, others are refused.
func TestPolicy(t *testing.T) {
	var p sched.Policy
	fl := pflag.NewFlagSet("", pflag.ContinueOnError)
	addPolicy(fl, &p, sched.FCFS)
	if err := fl.Parse([]string{"--policy", "lpm"}); err != nil || p != sched.LongestPrefix {
		t.Errorf("lpm is %q, %v", p, err)
	}
	if err := fl.Parse([]string{"--policy", "lifo"}); err == nil || !strings.Contains(err.Error(), `unknown policy "lifo"`) {
		t.Errorf("lifo: %v", err)
	}
}
