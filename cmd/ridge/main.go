// Ridge runs large language models. This command is the whole product: the engine, its server and its tools.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

func main() {
	if err := checkLimits(); err != nil {
		fmt.Fprintln(os.Stderr, "ridge:", err)
		os.Exit(1)
	}
	command := root()
	command.SetArgs(llamaShort(os.Args[1:]))
	err := command.ExecuteContext(stopBySignal())
	switch {
	case err == nil:
	case errors.Is(err, errFailed):
		os.Exit(1) // what failed has been printed
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(os.Stderr, "ridge: stopped by a signal") // whatever was interrupted has words of its own for it
		os.Exit(int(stopped.Load()))
	default:
		fmt.Fprintln(os.Stderr, inkOf(os.Stderr).paint(red, "ridge:"), strings.TrimPrefix(err.Error(), "ridge: ")) // the library begins its own with its name
		os.Exit(1)
	}
}

// stopped is the exit code for the signal that has ended the program, as shells have it: 130 for Ctrl-C.
var stopped atomic.Int32

// leaves is how long the program has to end by itself after a signal, in nanoseconds; 0: for ever. What it is doing may not look at the signal: loading, or a
// call of a library that does not return. Commands that let requests finish add the time that these have.
var leaves atomic.Int64

const leavesUnasked = 10 * time.Second

func init() { leaves.Store(int64(leavesUnasked)) }

// stopBySignal is a context that Ctrl-C and SIGTERM cancel. A second signal ends the program at once, with the exit code that shells use for it,
// and the first does when it has had its time.
func stopBySignal() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		code := exitCode(<-signals)
		stopped.Store(code)
		cancel()
		var late <-chan time.Time
		if d := time.Duration(leaves.Load()); d > 0 {
			late = time.After(d)
		}
		select {
		case again := <-signals:
			code = exitCode(again)
		case <-late:
			fmt.Fprintf(os.Stderr, "ridge: has not stopped %v after a signal, and is ended\n", time.Duration(leaves.Load()))
		}
		os.Exit(int(code))
	}()
	return ctx
}

// exitCode is what shells expect of a program that a signal has ended.
func exitCode(s os.Signal) int32 {
	if s, ok := s.(syscall.Signal); ok {
		return 128 + int32(s)
	}
	return 1
}

// errFailed ends the program with exit code 1 without another word.
var errFailed = errors.New("failed")

// root is the command tree.
func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ridge",
		Short: "Run large language models on this machine",
		Long: `Ridge runs large language models on CPUs and NVIDIA GPUs: one program, nothing to install beside it.

A model is a short name (ridge search lists them), ORG/REPO[:QUANT] on the Hugging Face hub, a GGUF file or a Hugging Face directory. Commands that
take one use the small built-in model when none is named, so that everything can be tried at once.`,
		Example: `  ridge run llama3.2:1b "Why is the sky blue?"
  ridge run -m model.gguf
  ridge show model.gguf`,
		Version:       thisBuild().String(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.SetFlagErrorFunc(flagError)
	cmd.SetVersionTemplate("{{.Version}}\n")
	for _, g := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"run", "Run models:", []*cobra.Command{runCommand(), serveCommand(), routeCommand(), cascadeCommand(), psCommand(), devicesCommand()}},
		{"models", "Models and files:", []*cobra.Command{searchCommand(), pullCommand(), listCommand(), rmCommand(), aliasCommand(), createCommand(), showCommand(), convertCommand(), mergeCommand(), quantizeCommand(), dummyCommand(), checkCommand(), tokenizeCommand(), templateCommand()}},
		{"price", "Predict performance:", []*cobra.Command{planCommand(), rooflineCommand(), graphCommand(), simulateCommand(), replayCommand()}},
		{"measure", "Measure performance and quality:", []*cobra.Command{benchCommand(), calibrateCommand(), evalCommand()}},
	} {
		cmd.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.id
			cmd.AddCommand(c)
		}
	}
	cmd.AddCommand(configCommand(), versionCommand(), manCommand())
	completeValues(cmd)
	cmd.PersistentFlags().String("config", "", "file of settings (ridge config); default: RIDGE_CONFIG, or ridge/config.yaml in the user's folder of settings")
	cmd.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Name() == "config" || cmd.Name() == "help" {
			return nil
		}
		_, err := settle(cmd)
		return err
	}
	return cmd
}
