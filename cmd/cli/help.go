// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// wantedOutput is the form of results and errors that a command line asks for.
// It looks at it before anything is parsed: mistakes in it are told in that
// form too. What makes no sense is left to who parses.
func wantedOutput(args, environ []string) string {
	form := environment(environ)["EXTENDDB_OUTPUT"]
	for i, arg := range args {
		if arg == "--" {
			break
		}
		if text, ok := strings.CutPrefix(arg, "--output="); ok {
			form = text
		} else if arg == "--output" && i+1 < len(args) {
			form = args[i+1]
		}
	}
	if form == "json" {
		return form
	}
	return "text"
}

// addLibraryCommands adds the commands that the library brings, help and
// completion, which are to refuse what they do not know, and to list their exit
// codes, as all others do. root must know its output.
func addLibraryCommands(root *cobra.Command) {
	help := &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about any command",
		Long:  "help prints what --help of a command prints." + exits(exitOK, exitUsage),
		RunE: func(_ *cobra.Command, args []string) error {
			named, rest, err := root.Find(args)
			if err = cmp.Or(err, noArgs(named, rest)); err != nil {
				return err
			}
			named.InitDefaultHelpFlag()
			return named.Help()
		},
	}
	for _, c := range root.Commands() {
		help.ValidArgs = append(help.ValidArgs, c.Name())
	}
	root.SetHelpCommand(help)
	root.InitDefaultHelpCmd()
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp) // names of tables and backups are no files
	root.InitDefaultCompletionCmd()
	i := slices.IndexFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == "completion" })
	completion := root.Commands()[i]
	completion.Args = noArgs
	completion.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	for _, c := range append(completion.Commands(), completion) {
		c.Long = strings.TrimSpace(c.Long) + exits(exitOK, exitUsage)
	}
}
