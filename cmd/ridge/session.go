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
	params     ridge.Params
	structured *structuredOutputFlags
	system     string
	verbose    bool
	messages   []chat.Message
	input      *input
	read       *atomic.Int64 // tokens of the model's steps
	last       string        // the last message, for /retry after /undo too
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
	fmt.Printf("%s on %s, context %d tokens. /help lists commands.\n", s.model.Name(), s.model.Device(), s.model.Context())
	for {
		text, err := s.input.read(">>> ")
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

// say answers one message. Ctrl-C ends the answer; what there is of it stays in the conversation.
func (s *session) say(text string) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	s.last = text
	turn := append(s.conversation(), chat.Message{Role: "user", Content: text})
	if err := s.structured.constrain(ctx, s.model, &s.params, turn); err != nil {
		fmt.Fprintln(os.Stderr, "ridge:", err)
		return
	}
	var answer strings.Builder
	reading := showReading(s.read, conversationTokens(s.model, turn))
	finish, err := stream(ctx, reading.before(newWrap(os.Stdout)), s.model.Chat(ctx, turn, s.params), &answer)
	reading.end()
	fmt.Print("\n\n")
	switch {
	case errors.Is(err, context.Canceled):
	case err != nil:
		fmt.Fprintln(os.Stderr, "ridge:", err)
		return
	case s.verbose:
		printSpeed(os.Stderr, finish)
	}
	s.messages = append(s.messages, chat.Message{Role: "user", Content: text}, chat.Message{Role: "assistant", Content: answer.String()})
}

// conversation is what was said so far, with the system message before it.
func (s *session) conversation() []chat.Message {
	var all []chat.Message
	if s.system != "" {
		all = append(all, chat.Message{Role: "system", Content: s.system})
	}
	return append(all, s.messages...)
}
