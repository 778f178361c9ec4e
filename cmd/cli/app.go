// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// Build is what the linker stamped into the binary.
type Build struct{ Version, Commit, Date string }

// App is one run of the program, with everything it touches outside given to
// it, so that tests run commands in process.
type App struct {
	Stdout  io.Writer // the result, nothing else
	Stderr  io.Writer // logs, warnings, errors
	Environ []string  // "NAME=value"
	Build   Build

	output string // text or json
}

// Run carries out a command line and returns the exit code.
func (a *App) Run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	return a.report(cmd, err)
}

func (a *App) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "extenddb",
		Short: "A DynamoDB-compatible database server",
		Long: "extenddb speaks the Amazon DynamoDB wire protocol over a storage engine of your\n" +
			"choice and administers what it serves.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if a.output != "text" && a.output != "json" {
				return usagef("--output %q: must be text or json", a.output)
			}
			return nil
		},
	}
	root.CompletionOptions.HiddenDefaultCmd = false
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &Error{Code: exitUsage, Err: err} })
	root.PersistentFlags().StringVar(&a.output, "output", "text", "form of results and errors: text or json")
	root.AddCommand(a.serveCommand(), a.configCommand(), a.versionCommand())
	return root
}

// report prints an error, with its hint, and returns its exit code.
func (a *App) report(cmd *cobra.Command, err error) int {
	var known *Error
	if !errors.As(err, &known) {
		known = &Error{Code: exitFailed, Err: err}
		if isUsage(err) {
			known.Code = exitUsage
		}
	}
	hint := known.Hint
	if hint == "" && known.Code == exitUsage {
		hint = fmt.Sprintf("see %q", cmd.CommandPath()+" --help")
	}
	if a.output == "json" {
		_ = json.NewEncoder(a.Stderr).Encode(map[string]any{
			"message_type": "exit_error", "code": known.Code, "message": err.Error(), "hint": hint,
		})
		return known.Code
	}
	name := strings.TrimPrefix(cmd.CommandPath(), "extenddb")
	prefix := "extenddb:"
	if name != "" {
		prefix += name + ":"
	}
	fmt.Fprintf(a.Stderr, "%s %s\n", prefix, err)
	if hint != "" {
		fmt.Fprintf(a.Stderr, "hint: %s\n", hint)
	}
	return known.Code
}

// result prints what a command returns: text as it is, or v as JSON.
func (a *App) result(text string, v any) error {
	if a.output == "json" {
		enc := json.NewEncoder(a.Stdout)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(v)
	}
	_, err := io.WriteString(a.Stdout, text)
	return err
}

// exitStatus is the last section of a command's help.
func exitStatus(lines ...string) string {
	return "\n\nEXIT STATUS\n  " + strings.Join(lines, "\n  ")
}
