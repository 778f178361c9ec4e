// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/extenddb/extenddb/format"
	"github.com/extenddb/extenddb/server/backup"
	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/jobs"
)

func (a *App) backupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup",
		Short: "Create, list, show, verify and delete backups of tables",
		Long: "A backup is a consistent snapshot of one table in a store: a directory that\n" +
			"--store or [backup] in the configuration names. Each command has its own help." +
			helpStatus(),
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.backupCreateCommand(), a.backupListCommand(), a.backupShowCommand(),
		a.backupVerifyCommand(), a.backupDeleteCommand())
	return cmd
}

// namedBackups is how the help of a command explains the argument BACKUP.
const namedBackups = "BACKUP is an ARN, ACCOUNT/TABLE/ID, TABLE/ID, an ID, a name that only one backup\n" +
	"has, or latest:TABLE, the newest whose manifest can be used."

func (a *App) backupCreateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "create TABLE... | --all",
		Short: "Back tables up while they are in use",
		Long: "create writes each table, as it is at one instant, into the store. Where a server\n" +
			"holds the file of the database it does the work, and goes on serving; else this\n" +
			"command does: on PostgreSQL always, unless --admin-socket names a server.\n" +
			"A backup is listed once it is complete; SIGINT or SIGTERM ends the work with\n" +
			"nothing listed of the table under way, as does the loss of the terminal (SIGHUP).\n" +
			"SIGUSR1 tells how far it is." +
			exitStatus("0    done", "1    failed", "2    wrong usage or configuration",
				"3    some tables were backed up, and some not", "10   the table, store or database does not exist",
				"11   the database is in use by others, or PostgreSQL cannot be reached; try later",
				"12   permission denied: the store, or the database",
				"13   refused: the database is not fit for it: of another version or program, or unsafe",
				"130  interrupted: nothing is listed of the table under way"),
		Example: "  extenddb backup create music --store file:///srv/backups\n" +
			"  extenddb backup create --all --quiet",
		Args: someOrAll,
		RunE: a.backupCreate,
	}
	cmd.Flags().Bool("all", false, "back every table up")
	cmd.Flags().String("name", "", "name of the backups (default the table's name and the time)")
	addFlags(cmd, jobFlags()...)
	return cmd
}

// someOrAll wants arguments or --all.
func someOrAll(cmd *cobra.Command, args []string) error {
	what, _, _ := strings.Cut(strings.TrimPrefix(cmd.Use, cmd.Name()+" "), " ")
	what = strings.TrimSuffix(what, "...")
	switch all, _ := cmd.Flags().GetBool("all"); {
	case all && len(args) > 0:
		return usagef("either %s or --all, not both", what)
	case !all && len(args) == 0:
		return usagef("no %s is named; --all takes every one", what)
	}
	return noneEmpty(cmd, args)
}

// some wants arguments, at least least and at most most; most 0: any number.
func some(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return usagef("an argument is missing: %s", cmd.UseLine())
		case most > 0 && len(args) > most:
			return usagef("unexpected argument %q", args[most])
		}
		return noneEmpty(cmd, args)
	}
}

func noneEmpty(_ *cobra.Command, args []string) error {
	for i, arg := range args {
		if arg == "" {
			return usagef("argument %d is empty", i+1)
		}
	}
	return nil
}

func (a *App) backupCreate(cmd *cobra.Command, args []string) error {
	v, store, err := a.storeOf(cmd)
	if err != nil {
		return err
	}
	if err := a.checkStore(v, store); err != nil {
		return err
	}
	all, _ := cmd.Flags().GetBool("all")
	raw, err := a.work(cmd.Context(), v, job{kind: jobs.KindBackup, undone: "no backup was made", params: jobs.BackupParams{
		Store: store, Tables: args, All: all, Name: cmd.Flag("name").Value.String(), Limits: limits(v),
	}})
	if raw == nil {
		return err
	}
	var made jobs.BackupResult
	if all && json.Unmarshal(raw, &made) == nil && len(made.Backups)+len(made.Failed) == 0 { // did tells when it is no result
		a.warn("there is no table to back up in "+v.storage(), false)
	}
	return did(a, v, raw, err, func(r jobs.BackupResult) string {
		var text strings.Builder
		for _, b := range r.Backups {
			fmt.Fprintf(&text, "backed up %s: %s, %s compressed in %s: %s\n", printable(b.Table), plural(b.Items, "item", "items"),
				iec(b.Size), plural(int64(b.Files), "file", "files"), b.ARN)
		}
		for _, f := range r.Failed {
			fmt.Fprintf(&text, "failed %s: %s\n", printable(f.Table), printable(f.Error))
		}
		return text.String()
	})
}

// storeOf resolves the settings of a command and the store they name.
func (a *App) storeOf(cmd *cobra.Command) (values, string, error) {
	v, err := a.resolve(cmd)
	if err != nil {
		return nil, "", err
	}
	store, err := wantStore(v)
	return v, store, err
}

// checkStore returns an error unless the store is there.
func (a *App) checkStore(v values, text string) error {
	s, err := openStore(a.commandLog(v), text)
	if err != nil {
		return err
	}
	return s.Close()
}

// withStore runs f with the store that the settings of a command name.
func (a *App) withStore(cmd *cobra.Command, f func(backup.Env, values) error) (err error) {
	v, text, err := a.storeOf(cmd)
	if err != nil {
		return err
	}
	log := a.commandLog(v)
	s, err := openStore(log, text)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, s.Close()) }()
	return f(backup.Env{Store: s, Clock: clock.Real{}, Log: log, Limits: limits(v)}, v)
}

// resolveAll finds the backups that arguments name, before anything is done
// with the first, and those that latest:TABLE had to pass over.
func resolveAll(ctx context.Context, e backup.Env, args []string) (refs []format.Ref, passed []backup.Finding, err error) {
	for _, arg := range args {
		n, err := backup.Find(ctx, e, arg)
		if err != nil {
			return nil, nil, err
		}
		refs = append(refs, n.Ref)
		for _, p := range n.Passed {
			if !slices.Contains(passed, p) {
				passed = append(passed, p)
			}
		}
	}
	return refs, passed, nil
}

// notNewest says that latest:TABLE had to pass over backups; "" when it had not.
func notNewest(passed []backup.Finding) string {
	if len(passed) == 0 {
		return ""
	}
	last := passed[len(passed)-1]
	return fmt.Sprintf("this is not the newest backup: %s cannot be used: %s", last.Object, last.Message)
}

// did prints the JSON result of a command that changed something, read as a T;
// as text not with --quiet, unless something failed. It returns failure.
func did[T any](a *App, v values, raw json.RawMessage, failure error, text func(T) string) error {
	var r T
	if err := json.Unmarshal(raw, &r); err != nil {
		return cmp.Or(failure, fmt.Errorf("read the result: %w", err))
	}
	if a.output == "text" && v.quiet() && failure == nil {
		return nil
	}
	return cmp.Or(failure, a.result(text(r), raw))
}
