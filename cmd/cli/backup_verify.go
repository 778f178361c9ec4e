// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/extenddb/extenddb/format"
	"github.com/extenddb/extenddb/server/backup"
)

func (a *App) backupVerifyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify BACKUP... | --all",
		Short: "Prove that backups can be restored",
		Long: "verify reads every object of a backup: digests, counts, and that each line is an\n" +
			"item of the table. It writes nothing.\n" + namedBackups + exitStatus("0    all is there", "1    failed", "2    wrong usage or configuration",
			"3    there are findings", "10   the backup or store does not exist", "12   permission denied: the store",
			"13   refused: the backup is of a newer format", "130  interrupted"),
		Example: "  extenddb backup verify latest:music\n  extenddb backup verify --all --output json",
		Args:    someOrAll,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withStore(cmd, func(e backup.Env, v values) error { return a.backupVerify(cmd.Context(), e, v, args) })
		},
	}
	cmd.Flags().Bool("all", false, "verify every backup of the store")
	addFlags(cmd, "backup.store", "output.")
	return cmd
}

// verified is the JSON result of backup verify.
type verified struct {
	Backups  []*backup.Report `json:"backups"`
	Problems []backup.Finding `json:"problems"` // what looks like a backup and is not
}

func (a *App) backupVerify(ctx context.Context, e backup.Env, v values, args []string) error {
	refs, problems, err := toVerify(ctx, e, args)
	if err != nil {
		return err
	}
	report, stop, err := a.follow(ctx, v)
	if err != nil {
		return err
	}
	e.Report = report
	out := verified{Backups: []*backup.Report{}, Problems: append([]backup.Finding{}, problems...)}
	for _, ref := range refs {
		e.Job = "verify " + ref.Prefix()
		r, verr := backup.Verify(ctx, e, ref)
		if verr != nil {
			err = verr
			break
		}
		out.Backups = append(out.Backups, r)
	}
	stop()
	findings, text := int64(0), strings.Builder{}
	for _, r := range out.Backups {
		findings += int64(len(r.Findings)) + r.Omitted
		writeReport(&text, r, v.quiet())
	}
	if perr := a.result(text.String(), out); perr != nil || err != nil {
		if err == nil {
			err = perr
		}
		return err
	}
	if len(args) == 0 && len(refs)+len(problems) == 0 { // or nobody would notice that none is ever made
		a.warn("no backup in the store", false)
	}
	problem := a.problems(problems)
	if findings > 0 {
		return (&Error{Code: exitIncomplete, Err: errors.New(plural(findings, "finding", "findings"))}).
			hint("such a backup may not restore: make a new one, or bring the objects back from a copy of the store")
	}
	return problem
}

// toVerify lists what to verify: the arguments, or without any all there is;
// and what looks like a backup of that and is not.
func toVerify(ctx context.Context, e backup.Env, args []string) ([]format.Ref, []backup.Finding, error) {
	if len(args) > 0 {
		return resolveAll(ctx, e, args)
	}
	list, problems, err := backup.List(ctx, e, backup.Filter{})
	refs := make([]format.Ref, len(list))
	for i, b := range list {
		refs[i] = format.Ref{Account: b.Account, Table: b.Table, ID: b.ID}
	}
	return refs, problems, err
}

func writeReport(text *strings.Builder, r *backup.Report, quiet bool) {
	b := &r.Backup
	name := cmp.Or(b.ARN, format.Ref{Account: b.Account, Table: b.Table, ID: b.ID}.Prefix()) // no ARN is known without a manifest
	if len(r.Findings) == 0 {
		if !quiet {
			fmt.Fprintf(text, "ok %s: %s in %s\n", printable(name), plural(r.Checked, "item", "items"), plural(int64(b.Files), "file", "files"))
			if !r.Ordered && r.Checked > 1 {
				text.WriteString("  its items are not in key order: should a key be there twice, only a restore would find it\n")
			}
		}
		return
	}
	fmt.Fprintf(text, "damaged %s: %s\n", printable(name), plural(int64(len(r.Findings))+r.Omitted, "finding", "findings"))
	for _, f := range r.Findings {
		fmt.Fprintf(text, "  %s: %s\n", printable(f.Object), printable(f.Message))
	}
	if r.Omitted > 0 {
		fmt.Fprintf(text, "  and %s more\n", count(r.Omitted))
	}
	if r.Stopped {
		text.WriteString("  the rest was not read\n")
	}
}
