// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/extenddb/extenddb/format"
	"github.com/extenddb/extenddb/server/backup"
)

func (a *App) backupDeleteCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "delete BACKUP...",
		Short: "Delete backups for good",
		Long: "delete asks on a terminal, and elsewhere wants --yes. All that are named must be\n" +
			"there before the first is deleted. ACCOUNT/TABLE/ID may also name an unfinished\n" +
			"backup, once that is a day old.\n" + namedBackups + exitStatus("0    done", "1    failed", "2    wrong usage or configuration",
			"3    some were deleted, and some not", "10   the backup or store does not exist",
			"11   an unfinished backup is not a day old; try later", "12   permission denied: the store",
			"13   refused: not confirmed, or the backup is protected", "130  interrupted"),
		Example: "  extenddb backup delete latest:music\n  extenddb backup delete 01757500000123-73d8d5bc --yes",
		Args:    some(1, 0),
		RunE: func(cmd *cobra.Command, args []string) error {
			yes, _ := cmd.Flags().GetBool("yes")
			return a.withStore(cmd, func(e backup.Env, v values) error {
				return a.backupDelete(cmd.Context(), e, v, args, yes)
			})
		},
	}
	cmd.Flags().Bool("yes", false, "do not ask")
	addFlags(cmd, storeFlags()...)
	return cmd
}

// deletion is the JSON result of backup delete.
type deletion struct {
	Deleted []deleted `json:"deleted"`
	Failed  []kept    `json:"failed"`
}

type deleted struct {
	Backup  string `json:"backup"` // ACCOUNT/TABLE/ID
	Objects int    `json:"objects"`
}

type kept struct {
	Backup string      `json:"backup"` // ACCOUNT/TABLE/ID
	Code   backup.Code `json:"code"`
	Error  string      `json:"error"`
	Hint   string      `json:"hint"`
}

func (a *App) backupDelete(ctx context.Context, e backup.Env, v values, args []string, yes bool) error {
	refs, err := toDelete(ctx, e, args)
	if err != nil {
		return err
	}
	if !yes {
		question, err := deleteQuestion(ctx, e, refs)
		if err != nil {
			return err
		}
		if err := a.confirm(ctx, question); err != nil {
			return err
		}
	}
	out := deletion{Deleted: []deleted{}, Failed: []kept{}}
	var text strings.Builder
	for _, ref := range refs {
		n, derr := backup.Delete(ctx, e, ref)
		if derr != nil {
			err = derr
			out.Failed = append(out.Failed, whyKept(ref, derr))
			if ctx.Err() != nil {
				break
			}
			continue
		}
		out.Deleted = append(out.Deleted, deleted{ref.Prefix(), n})
		if !v.quiet() {
			fmt.Fprintf(&text, "deleted %s, %s\n", ref.Prefix(), plural(int64(n), "object", "objects"))
		}
	}
	if len(refs) > 1 && err != nil && ctx.Err() == nil {
		for _, k := range out.Failed {
			fmt.Fprintf(&text, "kept %s: %s\n", k.Backup, printable(k.Error))
		}
		err = &Error{Code: exitIncomplete, Err: fmt.Errorf("%d of %d backups could not be deleted", len(out.Failed), len(refs))}
	}
	if perr := a.result(text.String(), out); err == nil {
		err = perr
	}
	return err
}

func whyKept(ref format.Ref, err error) kept {
	k := kept{Backup: ref.Prefix(), Code: backup.Failed, Error: err.Error()}
	var c classified
	if errors.As(err, &c) {
		k.Code, k.Hint = backup.Code(c.JobCode()), c.JobHint()
	}
	return k
}

// toDelete finds what the arguments name, once each. Only a whole ACCOUNT/TABLE/ID
// may name an unfinished backup.
func toDelete(ctx context.Context, e backup.Env, args []string) ([]format.Ref, error) {
	var refs []format.Ref
	for _, arg := range args {
		ref, whole := format.ParseRef(arg)
		var err error
		if whole {
			err = anything(ctx, e, ref)
		} else {
			ref, err = backup.Resolve(ctx, e, arg)
		}
		if err != nil {
			return nil, err
		}
		if !slices.Contains(refs, ref) {
			refs = append(refs, ref)
		}
	}
	return refs, nil
}

// anything returns an error unless there is an object of a backup.
func anything(ctx context.Context, e backup.Env, ref format.Ref) error {
	for _, err := range e.Store.List(ctx, ref.Prefix()) {
		if err != nil {
			return fmt.Errorf("list backup %s: %w", ref.Prefix(), err)
		}
		return nil
	}
	return (&Error{Code: exitNotFound, Err: fmt.Errorf("no backup %q in the store", ref.Prefix())}).
		hint("see what there is: extenddb backup list")
}

// deleteQuestion tells what would be deleted, and of which tables nothing would
// be left.
func deleteQuestion(ctx context.Context, e backup.Env, refs []format.Ref) (string, error) {
	var text strings.Builder
	var last []string
	for _, ref := range refs {
		list, problems, err := backup.List(ctx, e, backup.Filter{Account: ref.Account, Table: ref.Table})
		if err != nil {
			return "", err
		}
		what := "an unfinished backup"
		if slices.ContainsFunc(problems, func(p backup.Finding) bool { return p.Object == ref.Key(format.ManifestName) }) {
			what = "a backup whose manifest cannot be used"
		}
		left := 0
		for _, b := range list {
			switch of := (format.Ref{Account: b.Account, Table: b.Table, ID: b.ID}); {
			case of == ref:
				what = fmt.Sprintf("table %s at %s, %s", b.Table, instant(b.Created), plural(b.Items, "item", "items"))
			case !slices.Contains(refs, of):
				left++
			}
		}
		fmt.Fprintf(&text, "%s: %s\n", ref.Prefix(), what)
		if name := ref.Account + "/" + ref.Table; left == 0 && len(list) > 0 && !slices.Contains(last, name) {
			last = append(last, name)
		}
	}
	for _, name := range last {
		fmt.Fprintf(&text, "no other backup of table %s is in the store\n", name)
	}
	fmt.Fprintf(&text, "delete %s for good?", plural(int64(len(refs)), "backup", "backups"))
	return text.String(), nil
}

// confirm returns an error unless somebody at a terminal says yes.
func (a *App) confirm(ctx context.Context, question string) error {
	refused := &Error{Code: exitRefused, Err: errors.New("not confirmed; nothing was changed")}
	if !isTerminal(a.Stdin) {
		return refused.hint("--yes does it without asking")
	}
	fmt.Fprintf(a.Stderr, "%s [y/N] ", question)
	answer := make(chan string, 1)
	go func() { // reading cannot be cancelled; the program ends anyway
		line, _ := bufio.NewReader(a.Stdin).ReadString('\n')
		answer <- line
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintf(a.Stderr, "\n")
		return ctx.Err()
	case line := <-answer:
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return nil
		}
		return refused
	}
}
