package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/tokenizer"
)

func tokenizeCommand() *cobra.Command {
	var model string
	var asJSON, lists, noSpecial, decode bool
	cmd := &cobra.Command{
		Use:   "tokenize [TEXT]",
		Short: "Turn text into token ids, or back",
		Long: `Tokenize prints the ids of a text, with each token's text. With --lists it reads a JSON list of strings from standard
input and prints a JSON list of lists of ids; with --decode as well, the other way round.

The tokens that the model expects around a text (such as BOS) are added unless --no-special is given.`,
		Example: `  ridge tokenize -m model.gguf "Hello, world"
  echo '["Hello", "world"]' | ridge tokenize -m model.gguf --lists --no-special
  echo '[[9707, 11]]' | ridge tokenize -m model.gguf --lists --decode`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if lists == (len(args) == 1) {
				return fmt.Errorf("give either a text to tokenize or --lists, with lists on standard input")
			}
			if decode && !lists {
				return fmt.Errorf("--decode reads lists of ids from standard input and needs --lists")
			}
			t, err := openTokenizer(model)
			if err != nil {
				return err
			}
			o := tokenizer.Options{Special: !noSpecial, ParseSpecial: true}
			switch {
			case decode:
				return decodeJSON(cmd.InOrStdin(), cmd.OutOrStdout(), t)
			case lists:
				return encodeJSON(cmd.InOrStdin(), cmd.OutOrStdout(), t, o)
			}
			ids, err := t.Encode(args[0], o)
			if err != nil {
				return err
			}
			if asJSON {
				all := make([]tokenRow, len(ids))
				for i, id := range ids {
					all[i] = tokenRow{id, string(t.TokenBytes(id))}
				}
				return printJSON(cmd.OutOrStdout(), all)
			}
			for _, id := range ids {
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%7d  %q\n", id, t.TokenBytes(id)); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&model, "model", "m", "", "GGUF file, Hugging Face directory or tokenizer.json; default: the built-in model")
	addJSON(cmd.Flags(), &asJSON)
	cmd.Flags().BoolVar(&lists, "lists", false, "read JSON lists from standard input, and print such")
	cmd.Flags().BoolVar(&noSpecial, "no-special", false, "do not add the tokens that the model expects around a text")
	cmd.Flags().BoolVar(&decode, "decode", false, "turn lists of ids back into text")
	return cmd
}

// tokenRow is a token as --json prints it; bytes that are no text are replaced.
type tokenRow struct {
	ID   int32  `json:"id"`
	Text string `json:"text"`
}

// openTokenizer reads the tokenizer of a model, or a tokenizer.json by itself.
func openTokenizer(path string) (*tokenizer.Tokenizer, error) {
	if path == "" {
		b, err := modeldir.Builtin()
		if err != nil {
			return nil, err
		}
		return b.Tokenizer()
	}
	path, err := modelPath(path)
	if err != nil {
		return nil, err
	}
	return modeldir.OpenTokenizer(path)
}

func encodeJSON(in io.Reader, out io.Writer, t *tokenizer.Tokenizer, o tokenizer.Options) error {
	var texts []string
	if err := json.NewDecoder(in).Decode(&texts); err != nil {
		return fmt.Errorf("standard input should be a JSON list of strings: %w", err)
	}
	lists := make([][]int32, len(texts))
	for i, text := range texts {
		ids, err := t.Encode(text, o)
		if err != nil {
			return fmt.Errorf("text %d: %w", i, err)
		}
		lists[i] = append([]int32{}, ids...)
	}
	return json.NewEncoder(out).Encode(lists)
}

func decodeJSON(in io.Reader, out io.Writer, t *tokenizer.Tokenizer) error {
	var lists [][]int32
	if err := json.NewDecoder(in).Decode(&lists); err != nil {
		return fmt.Errorf("standard input should be a JSON list of lists of token ids: %w", err)
	}
	texts := make([]string, len(lists))
	for i, ids := range lists {
		for j, id := range ids {
			if id < 0 || int(id) >= t.VocabSize() {
				return fmt.Errorf("list %d: id %d is %d; the vocabulary has %d", i, j, id, t.VocabSize())
			}
		}
		texts[i] = t.Decode(ids, false)
	}
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	return enc.Encode(texts)
}
