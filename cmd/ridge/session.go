package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"

	"golang.org/x/term"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/chat"
)

// session is a conversation on a terminal.
type session struct {
	model      *ridge.Model
	path       string // by which it was named
	params     ridge.Params
	structured *structuredOutputFlags
	system     string
	verbose    bool
	messages   []chat.Message
	input      *input
	read       *atomic.Int64                                         // tokens of the model's steps
	open       func(name string) (*ridge.Model, ridge.Params, error) // loads another model; nil: the adapters in use are for this one
	last       string                                                // the last message, for /retry after /undo too
}

// loop reads and answers until the user leaves.
func (s *session) loop() error {
	if !term.IsTerminal(int(os.Stdout.Fd())) {
		return errors.New("chatting needs a terminal; give a prompt to have one answer")
	}
	if !s.model.CanChat() {
		return fmt.Errorf("model %s brings no chat template; give a prompt to have it continued", s.model.Name())
	}
	leaves.Store(0) // Ctrl-C ends an answer, not the conversation
	s.input, s.read = newInput(os.Stdin, os.Stdout), stepTokens(s.model)
	defer s.input.close()
	s.introduce()
	for {
		text, err := s.input.read(inkOf(os.Stdout).paint(green, ">>> "))
		switch {
		case errors.Is(err, io.EOF):
			fmt.Println()
			return nil
		case errors.Is(err, errInterrupt):
			fmt.Println("(Ctrl-D or /bye leaves)")
			continue
		case err != nil:
			return err
		}
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		if name, ok := strings.CutPrefix(text, "/"); ok {
			if leave := s.command(name); leave {
				return nil
			}
			continue
		}
		s.say(text)
	}
}

// introduce says which model answers.
func (s *session) introduce() {
	name := s.model.Name()
	begin := foldFor(os.Stdout, fmt.Sprintf("%s on %s, context %d tokens. /help lists commands.\n", name, s.model.Device(), s.model.Context()))
	fmt.Print(inkOf(os.Stdout).paint(bold, name) + strings.TrimPrefix(begin, name))
}

// say answers one message. Ctrl-C ends the answer; what there is of it stays in the conversation.
func (s *session) say(text string) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	s.last = text
	turn := append(s.conversation(), chat.Message{Role: "user", Content: text})
	if err := s.structured.constrain(ctx, s.model, &s.params, turn); err != nil {
		s.complain(err)
		return
	}
	reading := showReading(s.read, conversationTokens(s.model, turn))
	params, out := s.params, reading.before(newWrap(os.Stdout))
	answer := newReply(ctx, s.model, turn, &params, out)
	answer.thoughts = inkOf(os.Stdout).dimmed(os.Stdout, out)
	finish, err := stream(ctx, answer, s.model.Chat(ctx, turn, params))
	reading.end()
	err = errors.Join(err, answer.end())
	fmt.Print("\n\n")
	switch {
	case errors.Is(err, context.Canceled):
	case err != nil:
		s.complain(err)
		return
	case s.verbose:
		printSpeed(os.Stderr, finish)
	}
	s.messages = append(s.messages, chat.Message{Role: "user", Content: text}, chat.Message{Role: "assistant", Content: answer.content.String(), ReasoningContent: answer.reasoning.String()})
}

// conversation is what was said so far, with the system message before it.
func (s *session) conversation() []chat.Message {
	var all []chat.Message
	if s.system != "" {
		all = append(all, chat.Message{Role: "system", Content: s.system})
	}
	return append(all, s.messages...)
}
