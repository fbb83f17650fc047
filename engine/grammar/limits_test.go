package grammar

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestBombs gives grammars made to take long. Each must end in masks or in a sentence, and soon.
func TestBombs(t *testing.T) {
	for name, make := range map[string]func() (*Grammar, error){
		"exponential determinisation": func() (*Grammar, error) { return FromRegex(`(a|b)*a(a|b){40}`) },
		"nested counters":             func() (*Grammar, error) { return FromRegex(`(([a-c]*[a-d]){300}){300}(a|b|abab){200}(b|a){12}a.{40}`) },
		"ambiguous counters":          func() (*Grammar, error) { return FromRegex(`((a{0,1000}){0,1000}){0,1000}`) },
		"counters begun anywhere":     func() (*Grammar, error) { return FromRegex(`.*[a-z]{900}.*`) },
		"all of Unicode, often":       func() (*Grammar, error) { return FromRegex(strings.Repeat(`[\p{L}\p{N}]\P{L}`, 2000)) },
		"large counts":                func() (*Grammar, error) { return FromRegex(`(a{1000000000}){1000000000}`) },
		"many alternatives":           func() (*Grammar, error) { return FromRegex(strings.Repeat(`a|b|`, 200_000) + "c") },
		"many anchors":                func() (*Grammar, error) { return FromRegex(strings.Repeat(`(a?|$)`, 1000)) },
		"quantifiers": func() (*Grammar, error) {
			return FromRegex(strings.Repeat(`(`, 100) + "a" + strings.Repeat(`{9})`, 100))
		},
		"long literal": func() (*Grammar, error) { return FromRegex(strings.Repeat(`abcdefgh`, 100_000)) },
		"doubling rules": func() (*Grammar, error) {
			var s strings.Builder
			s.WriteString("root ::= r0\n")
			for i := range 100 {
				s.WriteString("r" + strconv.Itoa(i) + " ::= r" + strconv.Itoa(i+1) + " r" + strconv.Itoa(i+1) + "\n")
			}
			return FromGBNF(s.String() + "r100 ::= \"a\"")
		},
		"chain of rules": func() (*Grammar, error) {
			var s strings.Builder
			s.WriteString("root ::= r0\n")
			for i := range 15000 {
				s.WriteString("r" + strconv.Itoa(i) + " ::= \"a\" r" + strconv.Itoa(i+1) + "\n")
			}
			return FromGBNF(s.String() + "r15000 ::= \"a\"")
		},
		"all ways to nest": func() (*Grammar, error) {
			return FromGBNF(`root ::= "a" root root | "a" root "x" root | "a" a | "a"` + "\n" + `a ::= "a" (a | root) "x" | "a" (root | a) "y" | "a"`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			g, err := make()
			m, err := start(t, g, err)
			if err == nil {
				mask := [9]uint32{}
				for range 100 {
					if err = m.Mask(mask[:]); err == nil {
						err = m.Accept('a')
					}
					if err != nil {
						break
					}
				}
			}
			if took := time.Since(begin); took > 5*time.Second {
				t.Errorf("it took %v", took)
			}
			t.Logf("%v: %.200v", time.Since(begin), err)
		})
	}
}
