package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/chat"
)

// runFlags are the settings of run.
type runFlags struct {
	model      modelFlags
	sampling   samplingFlags
	lora       loraFlags
	cascade    cascadeFlags
	structured structuredOutputFlags
	system     string
	opening    []chat.Message // that a created model begins conversations with
	raw        bool
	verbose    bool
	explain    bool
	asJSON     bool
}

func runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [MODEL] [PROMPT]",
		Short: "Answer a prompt, or chat",
		Long: `Run answers one prompt, given as argument, on standard input, or both (the input is put below the argument), and
streams the answer to standard output. Without a prompt, on a terminal, it chats: /help lists the commands,
Ctrl-C stops an answer, Ctrl-D leaves.

MODEL is a short name (llama3.2:1b; ridge search lists them), a GGUF file, a Hugging Face directory, or ORG/REPO[:QUANT] on the Hugging Face hub; what is not here is downloaded.
A word that looks like a model, and the first of several arguments, is one: a prompt of several words is given in quotes. Without a model the small built-in one
answers, which knows small stories and the vocabulary of LLM inference.`,
		Example: `  ridge run "Tell me a story about a fox named Pip"
  ridge run llama3.2:1b "Why is the sky blue?"
  ridge run model.gguf
  ridge run Qwen/Qwen3-0.6B-GGUF:Q8_0 "Why is the sky blue?"
  git diff | ridge run -m model.gguf "Write a commit message for this:"
  ridge run -m model.gguf --raw --temperature 0 "The capital of France is"
  ridge run --json-schema person.json "Ada Lovelace was born in 1815."`,
		RunE: func(cmd *cobra.Command, args []string) error {
			args, err := f.takeModel(args)
			if err != nil {
				return err
			}
			if err := f.asCreated(cmd); err != nil {
				return err
			}
			f.lora.prepare(&f.model.options)
			if worked, err := f.model.work(cmd.Context()); worked || err != nil {
				return err
			}
			prompt, given, err := readPrompt(args, os.Stdin)
			if err != nil {
				return err
			}
			if f.asJSON && (!given || len(f.cascade.models) > 0) {
				return errors.New("--json prints one answer of one model: give a prompt, and leave --cascade out")
			}
			models, err := f.cascade.load(cmd.Context(), &f.model)
			if err != nil {
				return err
			}
			defer func() {
				if cmd.Context().Err() == nil { // else the program ends: it does not wait for a step that is under way
					models.Close()
				}
			}()
			m := models.Model
			params, err := f.sampling.params(cmd, m)
			if err != nil {
				return err
			}
			adapters, err := f.lora.load(m)
			if err != nil {
				return err
			}
			for _, name := range adapters {
				params.Adapters = append(params.Adapters, ridge.UseAdapter{Name: name, Scale: 1})
			}
			if len(models.stages) > 0 {
				if !given {
					return errors.New("--cascade answers one prompt; give one as argument or on standard input")
				}
				if answered, err := models.first(cmd, &f, prompt); answered || err != nil {
					return err
				}
			}
			if !given {
				s := &session{model: m, path: f.model.path, params: params, structured: &f.structured, system: f.system, messages: slices.Clone(f.opening), verbose: f.verbose}
				if len(adapters) == 0 {
					s.open = func(name string) (*ridge.Model, ridge.Params, error) { return f.open(cmd, name) }
				}
				err := s.loop()
				models.Model = s.model // which is closed then
				return err
			}
			return f.once(cmd.Context(), m, params, prompt)
		},
	}
	f.model.add(cmd)
	f.model.ranks.add(cmd.Flags())
	f.sampling.add(cmd)
	f.structured.add(cmd)
	f.lora.add(cmd.Flags(), &f.model.options)
	f.cascade.add(cmd.Flags())
	cmd.Flags().StringVar(&f.system, "system", "", "system message that goes before the conversation")
	cmd.Flags().BoolVar(&f.raw, "raw", false, "continue the prompt as it is, without the chat template")
	cmd.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "print tokens and tokens/s at the end")
	addJSON(cmd.Flags(), &f.asJSON)
	cmd.Flags().BoolVar(&f.explain, "explain", false, "print a breakdown of the time at the end, and the least time that this device allows")
	return cmd
}

// open loads another model with the settings of the first.
func (f *runFlags) open(cmd *cobra.Command, name string) (*ridge.Model, ridge.Params, error) {
	one := f.model
	one.path = name
	m, err := one.load(cmd.Context())
	if err != nil {
		return nil, ridge.Params{}, err
	}
	p, err := f.sampling.params(cmd, m)
	if err != nil {
		return nil, p, errors.Join(err, m.Close())
	}
	return m, p, nil
}

// takeModel takes the model from the arguments, if one is there. The rest are the prompt.
func (f *runFlags) takeModel(args []string) ([]string, error) {
	if f.model.path != "" || len(args) == 0 || len(f.cascade.models) > 0 {
		return args, nil
	}
	is, err := looksLikeModel(args[0])
	switch {
	case err != nil:
		return nil, err
	case is:
		f.model.path = args[0]
		n, err := lookUp(args[0], f.model.options.Backend)
		if err == nil && n.ref == nil && !exists(n.name) { // before a prompt is waited for
			err = cmp.Or(unknown(n.name), fmt.Errorf("there is no file or directory %s", n.name))
		}
		return args[1:], err
	case len(args) > 1:
		return nil, fmt.Errorf("there is no model %q here: the first of several arguments is one; pull it with ridge pull, or put a prompt of several words in quotes", args[0])
	}
	return args, nil
}

// readPrompt is the prompt of the command line and of standard input, if that is no terminal; given is false when there
// is neither, and the user wants to chat.
func readPrompt(args []string, stdin *os.File) (prompt string, given bool, err error) {
	prompt = strings.Join(args, " ")
	if term.IsTerminal(int(stdin.Fd())) {
		return prompt, prompt != "", nil
	}
	data, err := io.ReadAll(stdin)
	if err != nil {
		return "", false, fmt.Errorf("reading the prompt from standard input: %w", err)
	}
	input := strings.TrimRight(string(data), "\n")
	switch {
	case prompt == "" && input == "":
		return "", false, errors.New("there is no prompt: give one as argument or on standard input, or run on a terminal to chat")
	case prompt == "" || input == "":
		return prompt + input, true, nil
	}
	return prompt + "\n\n" + input, true, nil
}

// once answers one prompt.
func (f *runFlags) once(ctx context.Context, m *ridge.Model, p ridge.Params, prompt string) error {
	messages, err := f.messages(m, prompt)
	if err != nil {
		return err
	}
	if err := f.structured.constrain(ctx, m, &p, messages); err != nil {
		return err
	}
	reading := showReading(stepTokens(m), f.promptTokens(m, prompt, messages))
	out := io.Writer(os.Stdout)
	if f.asJSON {
		out = io.Discard
	}
	out = reading.before(out)
	answer := newReply(ctx, m, messages, &p, out)
	if !f.asJSON && term.IsTerminal(int(os.Stdout.Fd())) {
		answer.thoughts = inkOf(os.Stdout).dimmed(os.Stdout, out)
	}
	pieces := m.Generate(ctx, prompt, p)
	if len(messages) > 0 {
		pieces = m.Chat(ctx, messages, p)
	}
	finish, err := stream(ctx, answer, pieces)
	reading.end()
	err = cmp.Or(err, answer.end())
	if f.asJSON {
		if err == nil {
			err = printJSON(os.Stdout, answerOf(m, answer, finish))
		}
		return err
	}
	return f.end(m, finish, err)
}

// runAnswer is what --json prints of an answer.
type runAnswer struct {
	Model         string  `json:"model"`
	Reasoning     string  `json:"reasoning,omitempty"` // what the model thought before
	Answer        string  `json:"answer"`
	Reason        string  `json:"finish_reason"`
	Prompt        int     `json:"prompt_tokens"`
	Cached        int     `json:"cached_tokens"`
	Output        int     `json:"output_tokens"`
	PromptSeconds float64 `json:"prompt_seconds"` // until the first token
	OutputSeconds float64 `json:"output_seconds"` // from the first to the last
}

func answerOf(m *ridge.Model, r *reply, f *ridge.Finish) runAnswer {
	return runAnswer{m.Name(), r.reasoning.String(), r.content.String(), fmt.Sprint(f.Reason), f.Prompt, f.Cached, f.Output, f.Prefill.Seconds(), f.Decode.Seconds()}
}

// messages is the conversation that a prompt is for a model; none where it is continued as it is.
func (f *runFlags) messages(m *ridge.Model, prompt string) (all []chat.Message, err error) {
	if f.raw || !m.CanChat() {
		if f.system != "" {
			return nil, errors.New("--system needs a chat template; with --raw, or a model without one, write it into the prompt")
		}
		return nil, nil
	}
	if f.system != "" {
		all = append(all, chat.Message{Role: "system", Content: f.system})
	}
	return append(append(all, f.opening...), chat.Message{Role: "user", Content: prompt}), nil
}

// promptTokens is how long a prompt is, in tokens; 0 where it cannot be said.
func (f *runFlags) promptTokens(m *ridge.Model, prompt string, messages []chat.Message) int {
	if len(messages) > 0 {
		return conversationTokens(m, messages)
	}
	ids, err := m.Encode(prompt, true)
	if err != nil {
		return 0
	}
	return len(ids)
}

// end closes the answer's last line and prints what it took.
func (f *runFlags) end(m *ridge.Model, finish *ridge.Finish, err error) error {
	fmt.Println()
	if err == nil && f.verbose {
		printSpeed(os.Stderr, finish)
	}
	if err == nil && f.explain {
		printExplanation(os.Stderr, m.Explain(finish))
	}
	return err
}
