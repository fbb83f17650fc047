package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ridge-llm/ridge/chat"
	"github.com/ridge-llm/ridge/internal/regular"
	"github.com/ridge-llm/ridge/server"
	"github.com/ridge-llm/ridge/server/ollama"
)

func createCommand() *cobra.Command {
	var file, quantize string
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a model of another, with a Modelfile",
		Long: `Create makes a model of another with its own system prompt, parameters, template, adapter or first messages, as a Modelfile of Ollama's says:
FROM, PARAMETER, TEMPLATE, SYSTEM, ADAPTER, MESSAGE and LICENSE. FROM is a short name, ORG/REPO[:QUANT] on the hub, a file or folder, or another that was created;
what is not here is downloaded. Paths are those from the Modelfile's folder. ridge run, ridge list and ridge rm know the model by its name, and so do
servers of many (--models-hub or --models-dir). It takes no room on the disk, but for an adapter, which is copied, and weights that --quantize makes.`,
		Example: "  ridge create mario\n  ridge create mario -f ./Modelfile\n  ridge run mario \"Who are you?\"",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := regular.ReadFile(file)
			if err != nil {
				return fmt.Errorf("%w; -f names the Modelfile", err)
			}
			dir := filepath.Dir(file)
			l := &library{}
			c, err := ollama.Modelfile(args[0], string(text), func(path string) (map[string]string, error) { return l.keep(below(dir, path)) })
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			var of *server.ModelFile
			if c.From != "" {
				if of, err = createdOf(cmd.Context(), dir, c.From); err != nil {
					return fmt.Errorf("%s: FROM %s: %w", file, c.From, err)
				}
			}
			name := strings.TrimSuffix(args[0], ":latest")
			c.Quantize = quantize
			if err := l.Create(name, of, c); err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "ridge: created %s; ridge run %s\n", name, name)
			return nil
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "Modelfile", "the Modelfile")
	cmd.Flags().StringVarP(&quantize, "quantize", "q", "", "give the model weights of its own in a number format (ridge convert --help lists them), such as Q4_K_M")
	return cmd
}

// below is a path as it is from a folder.
func below(dir, path string) string {
	if home, err := os.UserHomeDir(); err == nil && strings.HasPrefix(path, "~/") {
		return filepath.Join(home, path[2:])
	}
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// createdOf is the model that FROM names in a Modelfile of a folder.
func createdOf(ctx context.Context, dir, from string) (*server.ModelFile, error) {
	if path := below(dir, from); exists(path) {
		path, err := filepath.Abs(path)
		return &server.ModelFile{Name: path, Path: path}, err
	}
	if m := createdNamed(from); m != nil {
		return &server.ModelFile{Name: m.Name, Preset: &server.Preset{}}, nil
	}
	path, err := fetchedPath(ctx, from, "")
	if err != nil {
		return nil, err
	}
	all, err := downloaded()
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(all, func(x server.ModelFile) bool { return filepath.Clean(x.Path) == filepath.Clean(path) }); i >= 0 {
		return &all[i], nil
	}
	path, err = filepath.Abs(path)
	if err == nil && !exists(path) {
		err = fmt.Errorf("there is no file or directory %s, and no model of that name", from)
	}
	return &server.ModelFile{Name: path, Path: path}, err
}

// keep copies the files of an adapter, a GGUF file or a folder of PEFT, to where those of created models are.
func (l *library) keep(path string) (map[string]string, error) {
	files := map[string]string{"adapter.gguf": path}
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if info.IsDir() {
		files = map[string]string{}
		for _, name := range []string{"adapter_config.json", "adapter_model.safetensors"} {
			files[name] = filepath.Join(path, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		digest, err := l.keepFile(files[name])
		if err != nil {
			return nil, err
		}
		files[name] = digest
	}
	return files, nil
}

// keepFile copies one, and gives its digest.
func (l *library) keepFile(path string) (digest string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, f)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return "", err
	}
	digest = fmt.Sprintf("sha256:%x", sum.Sum(nil))
	if has, err := l.HasBlob(digest); has || err != nil {
		return digest, err
	}
	return digest, l.PutBlob(digest, n, f)
}

// flagOf is the flag of run that a parameter of Ollama's is, where its name is another.
var flagOf = map[string]string{"repeat_penalty": "repetition-penalty", "num_predict": "max-tokens", "num_ctx": "ctx", "num_thread": "threads", "top_n_sigma": "top-nsigma", "dynatemp_exponent": "dynatemp-exp",
	"mirostat_tau": "mirostat-ent", "mirostat_eta": "mirostat-lr", "dry_sequence_breakers": "dry-sequence-breaker"}

// asCreated has the settings be those that the model was created with, where the command line does not say otherwise.
func (f *runFlags) asCreated(cmd *cobra.Command) error {
	n, err := lookUp(f.model.path, f.model.options.Backend)
	if err != nil || n.made == nil {
		return err
	}
	m := n.made
	f.model.path = n.base()
	flags := cmd.Flags()
	for _, name := range slices.Sorted(maps.Keys(m.Parameters)) {
		flag := cmp.Or(flagOf[name], strings.ReplaceAll(name, "_", "-"))
		known := flags.Lookup(flag)
		if known == nil {
			if ollama.ChangesNothing(name) {
				continue
			}
			return fmt.Errorf("%s was created with the parameter %s, which ridge run does not know; ridge serve does", m.Name, name)
		}
		if known.Changed || name == "temperature" && f.sampling.greedy {
			continue
		}
		var list []json.RawMessage
		if json.Unmarshal(m.Parameters[name], &list) != nil {
			list = []json.RawMessage{m.Parameters[name]}
		}
		for _, raw := range list {
			value := string(raw)
			_ = json.Unmarshal(raw, &value) // a text loses its quotation marks, a number stays
			if name == "num_predict" && strings.HasPrefix(value, "-") {
				value = "0" // no limit
			}
			if err := flags.Set(flag, value); err != nil {
				return fmt.Errorf("%s was created with the parameter %s: %w", m.Name, name, err)
			}
		}
	}
	if !flags.Changed("system") {
		f.system = m.System
	}
	if f.model.template == "" {
		f.model.options.Template = m.Template
	}
	if m.Adapter != "" {
		f.lora.named = append(f.lora.named, m.Name+"="+m.Adapter)
	}
	for _, x := range m.Messages {
		f.opening = append(f.opening, chat.Message{Role: x.Role, Content: x.Content})
	}
	return nil
}
