package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/ridge-llm/ridge/internal/created"
	"github.com/ridge-llm/ridge/internal/hub"
)

func listCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the models that were downloaded",
		Example: "  ridge list\n  ridge list --json | jq -r '.[].name'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			h, err := newHub()
			if err != nil {
				return err
			}
			all, err := h.List()
			if err != nil {
				return err
			}
			if all, err = withMade(all); err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(append([]hub.Entry{}, all...))
			}
			if len(all) == 0 {
				fmt.Fprintf(os.Stderr, "ridge: there are no models in %s; ridge pull downloads one\n", h.Dir)
				return nil
			}
			return printModels(cmd.OutOrStdout(), all)
		},
	}
	addJSON(cmd.Flags(), &asJSON)
	return cmd
}

func printModels(out io.Writer, all []hub.Entry) error {
	w := tabwriter.NewWriter(heading(out), 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tFORMAT\tSIZE\tDOWNLOADED")
	for _, e := range all {
		size := "-" // of what it is made of
		if e.Bytes > 0 {
			size = hub.Bytes(e.Bytes)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", e.Name, e.Format, size, e.Modified.Local().Format(time.DateTime))
	}
	return w.Flush()
}

// withMade is the models with those that were created of them.
func withMade(all []hub.Entry) ([]hub.Entry, error) {
	store, err := openCreated()
	if err != nil {
		return all, nil // without a place for them there are none
	}
	made, err := store.List()
	if err != nil && !errors.Is(err, created.ErrDamaged) {
		return nil, err
	}
	for _, m := range made {
		all = append(all, hub.Entry{Name: m.Name, Format: "of " + cmp.Or(m.From, "its own files"), Path: cmp.Or(m.Path, m.From), Modified: m.Modified})
	}
	return all, nil
}

// removeMade deletes a model that was created; false: there is none of that name.
func removeMade(name string, force bool) (bool, error) {
	m := createdNamed(name)
	if m == nil {
		return false, nil
	}
	store, err := openCreated()
	if err == nil && !force {
		err = confirm([]hub.Entry{{Name: m.Name, Format: "created", Modified: m.Modified}})
	}
	if err == nil {
		err = store.Remove(m.Name)
	}
	return true, err
}

func rmCommand() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "rm NAME|ORG/REPO[:QUANT]",
		Short: "Delete a model that was downloaded",
		Long: `Rm deletes a model from this machine; without QUANT, all of the repository's. Hugging Face's own tools keep theirs in the same
place: what they downloaded goes too.`,
		Example: "  ridge rm llama3.2:1b\n  ridge rm bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M\n  ridge rm -f Qwen/Qwen3-0.6B",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if made, err := removeMade(args[0], force); made {
				return err
			}
			n, err := hubRef(args[0], "")
			if err != nil {
				return err
			}
			h, err := newHub()
			if err != nil {
				return err
			}
			found, err := h.Matching(*n.ref)
			if err != nil {
				return err
			}
			if !force {
				if err := confirm(found); err != nil {
					return err
				}
			}
			return h.Remove(found)
		},
	}
	cmd.Flags().BoolVarP(&force, "force", "f", false, "do not ask")
	return cmd
}

// confirm asks on the terminal whether models may be deleted.
func confirm(found []hub.Entry) error {
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return errors.New("there is no terminal to ask on whether to delete; -f deletes without asking")
	}
	if err := printModels(os.Stderr, found); err != nil {
		return err
	}
	if yes, err := askYes("Delete?"); err != nil || !yes {
		return cmp.Or(err, errors.New("nothing was deleted"))
	}
	return nil
}

// askYes asks a question on the terminal, to which no is the answer unless y or yes is typed.
func askYes(question string) (bool, error) {
	fmt.Fprint(os.Stderr, question, " [y/N] ")
	answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	a := strings.ToLower(strings.TrimSpace(answer))
	return a == "y" || a == "yes", nil
}
