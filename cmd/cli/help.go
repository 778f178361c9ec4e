// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"cmp"
	"errors"
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
		Long:  "help prints what --help of a command prints." + helpStatus(),
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
	completion.Args = func(cmd *cobra.Command, args []string) error {
		err := noArgs(cmd, args)
		var e *Error
		if errors.As(err, &e) {
			return e.hint("there is completion for bash, zsh, fish and powershell")
		}
		return err
	}
	completion.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	for _, c := range completion.Commands() {
		if c.Name() == "bash" {
			plainBash(root, c)
		}
	}
	for _, c := range append(completion.Commands(), completion) {
		c.Long = strings.TrimSpace(c.Long) + helpStatus()
	}
}

// plainBash has the script for bash work in a shell without the package
// bash-completion too, of which it takes how a line is divided into words.
func plainBash(root, c *cobra.Command) {
	const with = `    _get_comp_words_by_ref "$@" cur prev words cword
`
	const without = `    if declare -F _get_comp_words_by_ref >/dev/null 2>&1; then
        _get_comp_words_by_ref "$@" cur prev words cword
    else
        words=("${COMP_WORDS[@]}") cword=$COMP_CWORD cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
    fi
`
	c.Long = strings.Replace(c.Long, "This script depends on the 'bash-completion' package.\nIf it is not installed already, you can install it via your OS's package manager.",
		"With the package bash-completion, words that hold : or = are completed as well.", 1)
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		plain, _ := cmd.Flags().GetBool("no-descriptions")
		var script bytes.Buffer
		if err := root.GenBashCompletionV2(&script, !plain); err != nil {
			return err
		}
		_, err := root.OutOrStdout().Write(bytes.Replace(script.Bytes(), []byte(with), []byte(without), 1))
		return err
	}
}
