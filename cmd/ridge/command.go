package main

import (
	"cmp"
	"errors"
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
  /model NAME         go on with another model, which is downloaded if it is not here; without NAME, which one answers
  /undo               take back the last message and its answer
  /retry              answer the last message anew
  /edit               change the last message in $EDITOR and send it again
  /copy               put the last answer on the clipboard, where the terminal lets programs do so (OSC 52)
  /save FILE          write the conversation to a file
  /load FILE          go on with the conversation of a file
  /verbose            print tokens/s after answers, or stop printing them
  /bye                leave; so does Ctrl-D
  """                 begin and end a message of several lines; so does a \ at the end of a line
  Tab                 complete a command, or the name of a model; Ctrl-R: the latest line with what was typed, again: one before
  Ctrl-C              stop an answer
`

// command does what a line that begins with / says; true ends the session.
func (s *session) command(line string) (leave bool) {
	name, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	switch name {
	case "help", "?":
		fmt.Print(foldFor(os.Stdout, sessionHelp))
	case "bye", "exit", "quit":
		return true
	case "clear":
		s.messages = nil
	case "system":
		s.system = rest
	case "verbose":
		s.verbose = !s.verbose
	case "set":
		s.complain(s.set(rest))
	case "model":
		s.complain(s.change(rest))
	case "undo":
		s.complain(s.undo())
	case "retry":
		s.complain(s.retry())
	case "edit":
		s.complain(s.edit())
	case "copy":
		s.complain(s.copyAnswer(os.Stdout))
	case "save":
		s.complain(s.save(rest))
	case "load":
		s.complain(s.load(rest))
	default:
		s.complain(fmt.Errorf("there is no command /%s; /help lists those there are", name))
	}
	return false
}

// complain says what was wrong, if anything was.
func (s *session) complain(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, inkOf(os.Stderr).paint(red, "ridge:"), strings.TrimPrefix(err.Error(), "ridge: "))
	}
}

// change goes on with another model. The first is closed before the other is loaded, for which there may be no room beside it; if that fails it is loaded again.
func (s *session) change(name string) error {
	if name == "" {
		s.introduce()
		return nil
	}
	if s.open == nil {
		return errors.New("the adapters of --lora are for this model; leave, and start with the other")
	}
	n, err := lookUp(name, "")
	if err == nil && n.ref == nil && !exists(n.name) {
		err = cmp.Or(unknown(n.name), fmt.Errorf("there is no file or directory %s", n.name))
	}
	if err = cmp.Or(err, n.notAsCreated()); err != nil {
		return err
	}
	old := s.path
	if err := s.model.Close(); err != nil {
		return err
	}
	m, p, err := s.open(name)
	if err == nil && !m.CanChat() {
		err = errors.Join(fmt.Errorf("model %s brings no chat template", m.Name()), m.Close())
	}
	if err != nil {
		again, params, failed := s.open(old)
		if failed != nil {
			return errors.Join(err, failed)
		}
		name, m, p = old, again, params
	}
	s.model, s.params, s.path, s.read = m, p, name, stepTokens(m)
	s.introduce()
	return err
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
