package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/ridge-llm/ridge/chat"
	"github.com/ridge-llm/ridge/internal/regular"
)

// undo takes back the last message and its answer.
func (s *session) undo() error {
	if len(s.messages) < 2 {
		return errors.New("nothing was said that could be taken back")
	}
	s.messages = s.messages[:len(s.messages)-2]
	fmt.Println("(taken back)")
	return nil
}

// retry answers the last message anew.
func (s *session) retry() error {
	if s.last == "" {
		return errors.New("there is no message to be answered anew")
	}
	s.takeBackLast()
	s.params.Sampling.Seed++ // with the same seed the answer would be the same
	s.say(s.last)
	return nil
}

// takeBackLast takes the last message out of the conversation, if it is there still.
func (s *session) takeBackLast() {
	if n := len(s.messages); n >= 2 && s.messages[n-2].Content == s.last {
		s.messages = s.messages[:n-2]
	}
}

// edit has the user change the last message, and sends it again.
func (s *session) edit() error {
	editor := os.Getenv("VISUAL")
	if editor == "" {
		editor = os.Getenv("EDITOR")
	}
	words := strings.Fields(editor)
	if len(words) == 0 {
		return errors.New("set EDITOR to the editor to change messages in")
	}
	f, err := os.CreateTemp("", "ridge-message-*.md")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(s.last)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	cmd := exec.Command(words[0], append(words[1:], f.Name())...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", editor, err)
	}
	data, err := os.ReadFile(f.Name())
	if err != nil {
		return err
	}
	text := strings.TrimSpace(string(data))
	if text == "" {
		return errors.New("the message is empty; nothing was sent")
	}
	s.takeBackLast()
	s.say(text)
	return nil
}

// copyAnswer puts the last answer on the clipboard by the terminal's own means: OSC 52.
func (s *session) copyAnswer(w io.Writer) error {
	if len(s.messages) == 0 {
		return errors.New("there is no answer to copy")
	}
	_, err := fmt.Fprintf(w, "\x1b]52;c;%s\a", base64.StdEncoding.EncodeToString([]byte(s.messages[len(s.messages)-1].Content)))
	return err
}

// savedConversation is what /save writes.
type savedConversation struct {
	Model    string         `json:"model"`
	System   string         `json:"system,omitempty"`
	Messages []savedMessage `json:"messages"`
}

type savedMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// save writes the conversation to a file that is not there yet, unless the user confirms.
func (s *session) save(file string) error {
	if file == "" {
		return errors.New("/save wants the name of a file")
	}
	if _, err := os.Stat(file); err == nil {
		answer, err := s.ask(fmt.Sprintf("%s is there already; write over it? [y/N] ", file))
		if err != nil || !strings.EqualFold(strings.TrimSpace(answer), "y") {
			return errors.New("nothing was written")
		}
	}
	c := savedConversation{Model: s.model.Name(), System: s.system}
	for _, m := range s.messages {
		c.Messages = append(c.Messages, savedMessage{m.Role, m.Content})
	}
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, append(data, '\n'), 0o600); err != nil {
		return err
	}
	fmt.Printf("(%d messages are in %s)\n", len(c.Messages), file)
	return nil
}

// ask asks the user a question; without a terminal the answer is no.
func (s *session) ask(question string) (string, error) {
	if s.input == nil {
		return "", nil
	}
	return s.input.line(question)
}

// load goes on with the conversation of a file.
func (s *session) load(file string) error {
	if file == "" {
		return errors.New("/load wants the name of a file that /save has written")
	}
	data, err := regular.ReadFile(file)
	if err != nil {
		return err
	}
	var c savedConversation
	if err := json.Unmarshal(data, &c); err != nil {
		return fmt.Errorf("%s is no conversation that /save has written: %w", file, err)
	}
	var messages []chat.Message
	for i, m := range c.Messages {
		if want := []string{"user", "assistant"}[i%2]; m.Role != want {
			return fmt.Errorf("message %d of %s is of %q; it should be the %s's", i+1, file, m.Role, want)
		}
		messages = append(messages, chat.Message{Role: m.Role, Content: m.Content})
	}
	if len(messages)%2 != 0 {
		return fmt.Errorf("the last message of %s has no answer", file)
	}
	s.messages, s.system, s.last = messages, c.System, ""
	if n := len(messages); n > 0 {
		s.last = messages[n-2].Content
	}
	fmt.Printf("(%d messages)\n", len(messages))
	return nil
}
