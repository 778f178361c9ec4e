// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/extenddb/extenddb/server/backup"
)

func (a *App) backupListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the complete backups of a store",
		Long: "list reads the manifests in the store, oldest backup first. One that is damaged\n" +
			"is no backup: it is reported on stderr, with exit code 3." + exitStatus("0    done", "1    failed", "2    wrong usage or configuration",
			"3    done, but there are backups that cannot be used", "10   the store does not exist",
			"12   permission denied: the store", "130  interrupted"),
		Example: "  extenddb backup list --store file:///srv/backups\n  extenddb backup list --table music --output json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withStore(cmd, func(e backup.Env, _ values) error {
				return a.backupList(cmd.Context(), e, cmd.Flag("table").Value.String())
			})
		},
	}
	cmd.Flags().String("table", "", "only backups of this table")
	addFlags(cmd, storeFlags()...)
	return cmd
}

func (a *App) backupList(ctx context.Context, e backup.Env, table string) error {
	list, problems, err := backup.List(ctx, e, backup.Filter{Table: table})
	if err != nil {
		return err
	}
	rows := [][]string{{"CREATED", "TABLE", "ID", "NAME", "ITEMS", "SIZE", "FILES"}}
	for _, b := range list {
		rows = append(rows, []string{instant(b.Created), b.Table, b.ID, b.Name, count(b.Items), iec(b.Size), count(int64(b.Files))})
	}
	if err := a.result(columns(rows), list); err != nil {
		return err
	}
	return a.problems(problems)
}

// problems tells of what looks like backups and is not.
func (a *App) problems(list []backup.Finding) error {
	if len(list) == 0 {
		return nil
	}
	newer := int64(0)
	for _, p := range list {
		word := "damaged"
		if p.Newer {
			word = "of a newer format"
			newer++
		}
		if a.output == "text" {
			fmt.Fprintf(a.Stderr, "%s: %s: %s\n", word, printable(p.Object), printable(p.Message))
		}
	}
	damaged := int64(len(list)) - newer
	var what, hints []string
	if damaged > 0 {
		what = append(what, plural(damaged, "backup is", "backups are")+" damaged")
		hints = append(hints, "restore the objects from a copy of the store, or remove them there")
	}
	if newer > 0 {
		what = append(what, plural(newer, "backup is", "backups are")+" of a newer format")
		hints = append(hints, "use a newer version of this program")
	}
	err := errors.New(strings.Join(what, ", "))
	if len(list) == 1 || a.output == "json" {
		err = fmt.Errorf("%w: %s: %s", err, list[0].Object, list[0].Message)
	}
	return (&Error{Code: exitIncomplete, Err: err}).hint("%s", strings.Join(hints, "; for those of a newer format "))
}
