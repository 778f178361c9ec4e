// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Build is what the linker stamped into the binary.
type Build struct{ Version, Commit, Date string }

// App is one run of the program, with everything it touches outside given to
// it, so that tests run commands in process.
type App struct {
	Stdin   io.Reader // answers, when it is a terminal
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
	addLibraryCommands(root)
	a.output = wantedOutput(args, a.Environ)
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
		Long: "extenddb speaks the Amazon DynamoDB wire protocol and keeps its data in an\n" +
			"embedded SQLite file or in PostgreSQL. It backs tables up and restores them while\n" +
			"it serves." + helpStatus(),
		Version:       a.Build.describe(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flag("output").Changed {
				a.output = cmp.Or(environment(a.Environ)["EXTENDDB_OUTPUT"], "text")
			}
			if a.output != "text" && a.output != "json" {
				return usagef("--output %q: must be text or json", a.output)
			}
			a.tuneCommand() // serve has goals of its own
			return nil
		},
	}
	root.SetVersionTemplate("extenddb {{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	root.PersistentFlags().StringVar(&a.output, "output", "text", "form of results and errors: text or json [EXTENDDB_OUTPUT]")
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
	root.AddCommand(a.serveCommand(), a.backupCommand(), a.restoreCommand(), a.storeCommand(), a.migrateCommand(),
		a.configCommand(), a.versionCommand())
	return root
}

// noArgs refuses arguments; where a subcommand is expected it suggests one.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if !cmd.HasSubCommands() {
		return usagef("unexpected argument %q", args[0])
	}
	var names []string
	for _, sub := range cmd.Commands() {
		names = append(names, sub.Name())
	}
	return usagef("unknown command %q%s", args[0], nearest(args[0], names))
}

// flagError words an error of flag parsing, with what was perhaps meant.
func flagError(cmd *cobra.Command, err error) error {
	if bad := (*pflag.InvalidValueError)(nil); errors.As(err, &bad) && bad.GetFlag().Value.Type() == "duration" {
		return usagef("--%s %q: must be a duration, such as 10s or 1m30s", bad.GetFlag().Name, bad.GetValue())
	}
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return &Error{Code: exitUsage, Err: err}
	}
	var names []string
	add := func(f *pflag.Flag) { names = append(names, f.Name) }
	cmd.Flags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	return usagef("%w%s", err, nearest(unknown.GetSpecifiedName(), names))
}

// report prints an error, with its hint, and returns its exit code.
func (a *App) report(cmd *cobra.Command, err error) int {
	e := known(err)
	text, hint := err.Error(), e.Hint
	if e.Code == exitInterrupted {
		text = e.Error()
	}
	if hint == "" && e.Code == exitUsage {
		hint = fmt.Sprintf("see %q", cmd.CommandPath()+" --help")
	}
	if a.output == "json" {
		_ = json.NewEncoder(a.Stderr).Encode(map[string]any{
			"message_type": "exit_error", "code": e.Code, "message": text, "hint": hint,
		})
		return e.Code
	}
	name := strings.TrimPrefix(cmd.CommandPath(), "extenddb")
	prefix := "extenddb:"
	if name != "" {
		prefix += name + ":"
	}
	fmt.Fprintf(a.Stderr, "%s %s\n", prefix, lines(text))
	if hint != "" {
		fmt.Fprintf(a.Stderr, "hint: %s\n", lines(hint))
	}
	return e.Code
}

// warn tells of what is no failure, with --quiet too.
func (a *App) warn(text string, asJSON bool) {
	if asJSON || a.output == "json" {
		a.newLog(slog.LevelWarn, true).Warn(text)
		return
	}
	fmt.Fprintf(a.Stderr, "extenddb: warning: %s\n", text)
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

// helpStatus is exitStatus of what only helps.
func helpStatus() string { return exitStatus("0    done", "2    wrong usage or configuration") }
