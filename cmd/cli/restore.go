// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/extenddb/extenddb/server/backup"
	"github.com/extenddb/extenddb/server/jobs"
)

func (a *App) restoreCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restore BACKUP --as NAME",
		Short: "Restore a backup as a new table",
		Long: "restore verifies the whole backup before it writes anything, then fills a table\n" +
			"of the name given, which must not exist; it can be used once it is complete.\n" +
			"Where a server holds the file of the database it does the work; else this command\n" +
			"does, and makes the file when it is not there: a new machine needs only the store.\n" +
			"On PostgreSQL it always does, unless --admin-socket names a server.\n" +
			"SIGINT, SIGTERM or the loss of the terminal (SIGHUP) ends the work with no table\n" +
			"left. SIGUSR1 tells how far it is.\n" +
			namedBackups + exitStatus("0    done", "1    failed, or the backup is damaged", "2    wrong usage or configuration",
			"10   the backup or store does not exist; of --dry-run also the database",
			"11   the database is in use by others, or PostgreSQL cannot be reached; try later",
			"12   permission denied: the store, or the database",
			"13   refused: the table exists, the format is newer, or the database is not fit for it",
			"130  interrupted: no table is left"),
		Example: "  extenddb restore latest:music --as music-copy --dry-run\n" +
			"  extenddb restore latest:music --as music-copy --store file:///srv/backups",
		Args: some(1, 1),
		RunE: a.restore,
	}
	cmd.Flags().String("as", "", "name of the table to make (required)")
	cmd.Flags().Bool("dry-run", false, "verify the backup and check the name, but write nothing; the database must exist")
	addFlags(cmd, jobFlags()...)
	return cmd
}

func (a *App) restore(cmd *cobra.Command, args []string) error {
	as := cmd.Flag("as").Value.String()
	if as == "" {
		return usagef("--as NAME is required: the table to make").hint("a backup is never restored over a table that exists")
	}
	if err := backup.CheckTableName(as); err != nil {
		return err
	}
	v, store, err := a.storeOf(cmd)
	if err != nil {
		return err
	}
	// Before a database is made for it: is there such a backup?
	var n backup.Named
	err = a.withStore(cmd, func(e backup.Env, _ values) (err error) {
		if n, err = backup.Find(cmd.Context(), e, args[0]); err == nil {
			_, _, err = backup.Show(cmd.Context(), e, n.Ref)
		}
		return err
	})
	if err != nil {
		return err
	}
	dry, _ := cmd.Flags().GetBool("dry-run")
	raw, err := a.work(cmd.Context(), v, job{kind: jobs.KindRestore, create: !dry, undone: "no table was made", params: jobs.RestoreParams{
		Store: store, Backup: n.Ref.Prefix(), As: as, DryRun: dry, Limits: limits(v),
	}})
	if raw == nil {
		return err
	}
	if text := notNewest(n.Passed); text != "" {
		a.warn(text, false)
		raw = passedOver(raw, n.Passed)
	}
	return did(a, v, raw, err, func(r backup.RestoreResult) string {
		what := fmt.Sprintf("%s, %s, %s", plural(r.Items, "item", "items"), iec(r.Size), plural(int64(r.Indexes), "index", "indexes"))
		if r.DryRun {
			return fmt.Sprintf("verified %s: %s would be table %s; nothing was written\n", printable(r.Backup), what, printable(r.Table))
		}
		return fmt.Sprintf("restored %s as table %s: %s\n", printable(r.Backup), printable(r.Table), what)
	})
}

// passedOver adds to the result of a restore what latest:TABLE passed over,
// which only this command knows.
func passedOver(raw json.RawMessage, passed []backup.Finding) json.RawMessage {
	var r backup.RestoreResult
	if json.Unmarshal(raw, &r) != nil {
		return raw // did tells
	}
	r.PassedOver = passed
	with, err := json.Marshal(r)
	if err != nil { // only an instant beyond the year 9999
		return raw
	}
	return with
}
