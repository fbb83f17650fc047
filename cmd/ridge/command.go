package main

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

// sessionHelp is what /help prints.
const sessionHelp = `  /help               this list
  /clear              forget the conversation
  /system TEXT        set the system message; without TEXT, none
  /set NAME VALUE     set temperature, top-k, top-p, min-p, repetition-penalty, seed or max-tokens
  /verbose            print tokens/s after answers, or stop printing them
  /bye                leave; so does Ctrl-D
  """                 begin and end a message of several lines; so does a \ at the end of a line
  Ctrl-C              stop an answer
`

// command does what a line that begins with / says; true ends the session.
func (s *session) command(line string) (leave bool) {
	name, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	switch name {
	case "help", "?":
		fmt.Print(sessionHelp)
	case "bye", "exit", "quit":
		return true
	case "clear":
		s.messages = nil
	case "system":
		s.system = rest
	case "verbose":
		s.verbose = !s.verbose
	case "set":
		if err := s.set(rest); err != nil {
			fmt.Fprintln(os.Stderr, "ridge:", err)
		}
	default:
		fmt.Fprintf(os.Stderr, "ridge: there is no command /%s; /help lists those there are\n", name)
	}
	return false
}

// set changes one sampling setting; the old one stays if the new is not valid.
func (s *session) set(line string) error {
	name, value, _ := strings.Cut(line, " ")
	number, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if err != nil {
		return fmt.Errorf("/set %s wants a number after the name, not %q", name, value)
	}
	if counts := []string{"top-k", "seed", "max-tokens"}; slices.Contains(counts, name) && (number != math.Trunc(number) || number < 0 || number > math.MaxInt32) {
		return fmt.Errorf("/set %s wants a whole number from 0 to %d, not %s", name, math.MaxInt32, strings.TrimSpace(value))
	}
	p := s.params
	switch name {
	case "temperature":
		p.Sampling.Temperature = number
	case "top-k":
		p.Sampling.TopK = int(number)
	case "top-p":
		p.Sampling.TopP = number
	case "min-p":
		p.Sampling.MinP = number
	case "repetition-penalty":
		p.Sampling.RepetitionPenalty = number
	case "seed":
		p.Sampling.Seed = uint64(number)
	case "max-tokens":
		p.MaxTokens = int(number)
	default:
		return fmt.Errorf("/set knows no %q; /help lists what can be set", name)
	}
	if err := p.Sampling.Validate(s.model.Vocab()); err != nil {
		return err
	}
	s.params = p
	return nil
}
