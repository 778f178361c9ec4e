// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/extenddb/extenddb/backupstore"
	"github.com/extenddb/extenddb/backupstore/fs"
	"github.com/extenddb/extenddb/server/backup"
)

func (a *App) storeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "store",
		Short: "Make or check a place for backups",
		Long: "A store holds backups. Its URL is file:///DIRECTORY, or file:DIRECTORY for one\n" +
			"that is relative to the working directory." + helpStatus(),
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	init := &cobra.Command{
		Use:   "init URL",
		Short: "Make a directory a store",
		Long: "init creates the directory, for its owner only, or takes an empty one, and leaves\n" +
			"a hidden file there. Nothing else ever makes a store: a mistyped name, or a file\n" +
			"system that is not mounted, is none. The directory above must exist." +
			exitStatus("0    done", "1    failed", "2    wrong usage or configuration", "12   permission denied",
				"13   refused: the directory is not empty, or the one above it does not exist"),
		Example: "  extenddb store init file:///srv/backups",
		Args:    some(1, 1),
		RunE:    a.storeInit,
	}
	check := &cobra.Command{
		Use:   "check [URL]",
		Short: "Try out everything that backups need of a store",
		Long: "check lists, writes, reads, replaces and deletes small objects of its own, and\n" +
			"names the right that is missing when one of that fails. It also lists unfinished\n" +
			"backups, which are no failure: the exit code is 0. Without URL it checks the\n" +
			"store of the settings." +
			exitStatus("0    done", "1    failed", "2    wrong usage or configuration", "10   the store does not exist",
				"12   permission denied: the store", "130  interrupted"),
		Example: "  extenddb store check file:///srv/backups\n  extenddb store check --output json",
		Args:    some(0, 1),
		RunE:    a.storeCheck,
	}
	addFlags(init, "output.quiet")
	addFlags(check, storeFlags()...)
	cmd.AddCommand(init, check)
	return cmd
}

func (a *App) storeInit(cmd *cobra.Command, args []string) error {
	v, err := a.resolve(cmd)
	if err != nil {
		return err
	}
	u, err := absoluteURL(args[0])
	if err != nil {
		return err
	}
	dir, err := storeDir(u)
	if err != nil {
		return err
	}
	err = fs.Init(dir)
	switch {
	case errors.Is(err, backupstore.ErrPermission):
		return (&Error{Code: exitDenied, Err: err}).hint("make it as a user who may write there")
	case errors.Is(err, backupstore.ErrUnusable):
		e := (&Error{Code: exitRefused, Err: err}).hint("choose a directory that is empty or not there yet")
		if _, err := os.Stat(filepath.Dir(dir)); errors.Is(err, iofs.ErrNotExist) {
			e = e.hint("check the name, and that its file system is mounted; else make the directory: mkdir -p %s", shown(filepath.Dir(dir), "DIRECTORY"))
		}
		return e
	case err != nil:
		return err
	}
	if a.output == "text" && v.quiet() {
		return nil
	}
	return a.result("store "+u+" is ready\n", map[string]string{"store": u})
}

// checked is the JSON result of store check.
type checked struct {
	Store      string              `json:"store"`
	OK         bool                `json:"ok"`
	Probes     []backupstore.Probe `json:"probes"`
	Unfinished []string            `json:"unfinished"` // ACCOUNT/TABLE/ID
}

func (a *App) storeCheck(cmd *cobra.Command, args []string) error {
	if len(args) == 1 {
		if err := cmd.Flags().Set("store", args[0]); err != nil {
			return err
		}
	}
	return a.withStore(cmd, func(e backup.Env, v values) error {
		u, err := storeURL(v)
		if err != nil {
			return err
		}
		return a.check(cmd.Context(), e, u, v.quiet())
	})
}

func (a *App) check(ctx context.Context, e backup.Env, u string, quiet bool) error {
	out := checked{Store: u, OK: true, Probes: backupstore.Check(ctx, e.Store), Unfinished: []string{}}
	if err := ctx.Err(); err != nil {
		return err
	}
	rows := [][]string{{"STEP", "RESULT"}}
	missing := ""
	for _, p := range out.Probes {
		verdict := "ok"
		if !p.OK {
			out.OK, verdict = false, p.Error
		}
		if missing == "" {
			missing = p.Missing
		}
		rows = append(rows, []string{p.Step, verdict})
	}
	// Without the right to list the probe has told.
	if left, err := backup.Unfinished(ctx, e); err == nil {
		out.Unfinished = left
	}
	text := columns(rows)
	for _, prefix := range out.Unfinished {
		text += fmt.Sprintf("unfinished: %s (a backup that is being made, or that was never finished)\n", printable(prefix))
	}
	if quiet && out.OK && a.output == "text" {
		return nil
	}
	if err := a.result(text, out); err != nil {
		return err
	}
	switch {
	case out.OK:
		return nil
	case missing != "":
		return (&Error{Code: exitDenied, Err: fmt.Errorf("store %s: a right is missing: %s", u, missing)}).
			hint("give this user the right, or run as one who has it")
	}
	return (&Error{Code: exitFailed, Err: fmt.Errorf("store %s does not do what backups need", u)}).
		hint("the steps above tell what fails")
}
